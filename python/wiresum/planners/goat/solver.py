"""GOAT's solver: from a problem and what is wanted of it to ever better answers."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from wiresum.planners.goat.problem import Problem
from wiresum.planners.goat.repair import repaired
from wiresum.planners.optimisation.process import last_answer
from wiresum.topology.graph import Bools, Floats

Wanted = Literal["exact", "relaxed", "as_printed"]

MAX_COLUMNS = 50_000
"""The most columns of an integer programme that HiGHS solves whole; larger problems go in blocks."""
BLOCK_COLUMNS = 12_000
"""Columns of a block: some seconds for a fat-tree of 32-port switches in all."""
BLOCKS_SHARE = 0.75
"""Share of the time that is left: repairing and costing a large answer takes some too."""
GAP = 1e-3
"""Relative: what integer programmes are first solved to. What is left is packing of unequal sizes, which takes long."""
PROOF_S = 5.0
"""After that, for the rest of the gap, where the problem is solved whole."""
CLOSED = 1e-9
"""Relative: a smaller gap is rounding."""


@dataclass(frozen=True, eq=False)
class Answer:
    """A point and a bound.

    Attributes:
        x: (aggregators, sub-models), integral if `exact` is wanted.
        bound: of Eq. (1), in bytes × links; None if nothing is proven.
        in_time: whether more time would not have helped.
    """

    x: Floats
    bound: float | None
    in_time: bool = True

    def to_json(self) -> str:
        """A line: the entries that are not 0."""
        entries = [(int(i), int(j), float(self.x[i, j])) for i, j in np.argwhere(self.x)]
        return json.dumps({"shape": self.x.shape, "x": entries, "bound": self.bound, "in_time": self.in_time})

    @classmethod
    def parse(cls, line: str) -> Answer:
        """What `to_json` has written."""
        content = json.loads(line)
        x = np.zeros(content["shape"])
        for row, column, value in content["x"]:
            x[row, column] = value
        return cls(x, content["bound"], content["in_time"])


def solve(problem: Problem, wanted: Wanted, time_limit_s: float, planner: str) -> Answer:
    """Solves, in a process of its own unless it is small.

    Raises:
        SupportError: HiGHS is not installed.
        PlanError: nothing was found in time.
    """
    question = json.dumps({"wanted": wanted, "problem": problem.to_json()})
    return Answer.parse(last_answer(__name__, question, time_limit_s, planner, problem.columns))


def answers(question: str, time_limit_s: float) -> Iterator[str]:
    """The solver; `optimisation.process` says where it runs."""
    asked, clock = json.loads(question), Clock(time_limit_s)
    for answer in SOLVERS[asked["wanted"]](Problem.parse(asked["problem"]), clock):
        yield answer.to_json()


class Clock:
    """What is left of a time limit."""

    def __init__(self, limit_s: float) -> None:
        self._end_s = time.monotonic() + limit_s

    @property
    def left_s(self) -> float:
        """Seconds, 0 at least."""
        return max(0.0, self._end_s - time.monotonic())


def exact(problem: Problem, clock: Clock) -> Iterator[Answer]:
    """First what a greedy choice gives, then the relaxation's bound, then integer programmes."""
    from wiresum.planners.goat import programmes
    from wiresum.planners.goat.coverage import Coverage

    best = Best(problem)
    yield best.offer(problem.nothing, None, False)
    yield best.offer(None, programmes.relaxed_bound(problem, clock.left_s).bound, False)
    if len(problem.sizes) * Coverage.of(problem).columns > MAX_COLUMNS:
        opened = _in_blocks(problem, Clock(BLOCKS_SHARE * clock.left_s)) if best.gap > GAP else None
        yield best.offer(opened, None, clock.left_s > 0)
        return
    for gap, most_s in ((GAP, clock.left_s), (0.0, PROOF_S)):
        if best.gap > CLOSED:
            found = programmes.exact(problem, min(most_s, clock.left_s), gap)
            yield best.offer(found.opened, found.bound, clock.left_s > 0)
    yield best.offer(None, None, clock.left_s > 0)


def _in_blocks(problem: Problem, clock: Clock) -> Bools:
    """Some sub-models after the other, the largest first, each block with its part of the memory that is left."""
    from wiresum.planners.goat import programmes
    from wiresum.planners.goat.coverage import Coverage

    opened = problem.nothing.copy()
    free, waiting = problem.memory.copy(), float(problem.sizes.sum())
    blocks = _blocks(problem, BLOCK_COLUMNS // Coverage.of(problem).columns)
    for number, block in enumerate(blocks):
        share = float(problem.sizes[block].sum()) / waiting
        part = problem.part(block, np.where(np.isinf(free), free, np.floor(free * share)))
        found = programmes.exact(part, clock.left_s / (len(blocks) - number), GAP).opened
        opened[:, block] = repaired(part, part.nothing if found is None else found)
        free = problem.memory - opened @ problem.sizes
        waiting -= float(problem.sizes[block].sum())
    return opened


def _blocks(problem: Problem, size: int) -> Sequence[np.ndarray[tuple[int], np.dtype[np.int64]]]:
    descending = np.argsort(-problem.sizes, kind="stable")
    return np.array_split(descending, -(-len(descending) // max(1, size)))


class Best:
    """The best point so far, and the best bound."""

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        self._opened = problem.nothing
        self._value = float(problem.value(problem.nothing))
        self._bound: float | None = None

    @property
    def gap(self) -> float:
        """Relative."""
        return 1.0 if self._bound is None else (self._value - self._bound) / self._value

    def offer(self, opened: Bools | None, bound: float | None, in_time: bool) -> Answer:
        """Takes what is better, once it is repaired."""
        if opened is not None:
            fit = repaired(self._problem, opened)
            value = float(self._problem.value(fit))
            if value < self._value:
                self._opened, self._value = fit, value
        if bound is not None:
            self._bound = max(bound, self._bound or 0.0)
        return Answer(self._opened.astype(np.float64), self._bound, in_time)


def relaxed(problem: Problem, clock: Clock) -> Iterator[Answer]:
    """The relaxation: a vertex where there is time for one, the mean of all sub-models otherwise."""
    from wiresum.planners.goat import programmes
    from wiresum.planners.goat.coverage import Coverage

    mean = programmes.relaxed_bound(problem, clock.left_s)
    if mean.x is not None:
        yield Answer(mean.x, mean.bound)
    if len(problem.sizes) * Coverage.of(problem).columns <= MAX_COLUMNS:
        vertex = programmes.relaxed(problem, clock.left_s)
        if vertex.x is not None:
            yield Answer(vertex.x, vertex.bound)


def as_printed(problem: Problem, clock: Clock) -> Iterator[Answer]:
    """Eq. (4) relaxed, and Eq. (1)'s bound beside it."""
    from wiresum.planners.goat import programmes

    found, bound = programmes.as_printed(problem, clock.left_s), programmes.relaxed_bound(problem, clock.left_s).bound
    if found.x is not None:
        yield Answer(found.x, bound)


SOLVERS: dict[Wanted, Callable[[Problem, Clock], Iterator[Answer]]] = {
    "exact": exact,
    "relaxed": relaxed,
    "as_printed": as_printed,
}
