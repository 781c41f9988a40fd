"""The best rate there is: bisection over the candidates, with an integer programme at each.

What is known is an answer after every step.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from wiresum.plan.assignment import Instance
from wiresum.planners.ingo.candidates import candidates, highest
from wiresum.planners.ingo.choices import Way
from wiresum.planners.ingo.flows import FlowModel, FlowNetwork
from wiresum.planners.ingo.selection import Selection
from wiresum.planners.optimisation.process import last_answer
from wiresum.topology.graph import Floats

WEIGHT = 10
"""Weight of its columns, which are whole flows: with some hundred of them a step of the solver may take seconds."""
ANY_SOLUTION = 1.0
"""Relative gap at which an integer programme is done: what is asked is whether there is a solution."""


@dataclass(frozen=True)
class Answer:
    """What is known.

    Attributes:
        bound: no selection is faster, over whatever paths; in units of `choices.UNIT_BPS`.
        selection: the fastest that was found; None if none was looked for, or found.
    """

    bound: float
    selection: Selection | None = None

    def to_json(self) -> str:
        """One line."""
        if self.selection is None:
            return json.dumps([self.bound, None, None])
        workers = [(way.aggregator, way.resources) for way in self.selection.of_workers]
        sums = {one: way.resources for one, way in self.selection.of_aggregators.items()}
        return json.dumps([self.bound, workers, sums])

    @classmethod
    def parse(cls, text: str) -> Answer:
        """Reads that line."""
        bound, workers, sums = json.loads(text)
        if workers is None:
            return cls(bound)
        chosen = tuple(Way(aggregator, tuple(resources)) for aggregator, resources in workers)
        # Sums end at the server.
        return cls(bound, Selection(chosen, {int(one): Way(0, tuple(resources)) for one, resources in sums.items()}))


def highest_rate(instance: Instance, time_limit_s: float, planner: str, *, bound_only: bool = False) -> Answer:
    """The highest rate, or the best selection and bound that were found in time.

    Args:
        instance: the question.
        time_limit_s: for all programmes together.
        planner: for whom, for messages.
        bound_only: whether to leave it at the bound of programmes in fractions.

    Raises:
        SupportError: HiGHS is not installed.
        PlanError: there was not even a bound in time.
    """
    question = json.dumps([bound_only, FlowNetwork.of(instance).to_json()])
    columns = 2 * (instance.graph.arc_count + len(instance.aggregators))
    return Answer.parse(last_answer(__name__, question, time_limit_s, planner, WEIGHT * columns))


def answers(question: str, time_limit_s: float) -> Iterator[str]:
    """The solver; `optimisation.process` says where it runs."""
    bound_only, network = json.loads(question)
    search = _Search(FlowNetwork.parse(network), time_limit_s)
    for answer in search.bounds() if bound_only else search.answers():
        yield answer.to_json()


class _Search:
    def __init__(self, network: FlowNetwork, time_limit_s: float) -> None:
        self._ends_s = time.monotonic() + time_limit_s
        self._model = FlowModel(network)
        self._rates = candidates(np.array(network.capacity), len(network.workers))

    def bounds(self) -> Iterator[Answer]:
        """One: the highest rate at which fractions of flows fit."""
        best = highest(self._rates, lambda rate: self._solve(rate, integral=False) is not None)
        if best >= 0 and not self._is_late:
            self._rates = self._rates[: best + 1]
            yield Answer(float(self._rates[-1]))

    def answers(self) -> Iterator[Answer]:
        """The bound, then better and better selections with lower and lower bounds."""
        bound = next(self.bounds(), None)
        if bound is None:
            return
        yield bound
        low, high, middle = -1, len(self._rates), len(self._rates) - 1
        best: Selection | None = None
        while low < middle < high:
            x = self._solve(float(self._rates[middle]), integral=True)
            if x is None and self._is_late:
                return
            if x is not None:
                best = self._model.selection(x)
            low, high = (middle, high) if x is not None else (low, middle)
            yield Answer(float(self._rates[high - 1]), best)
            middle = (low + high) // 2

    @property
    def _is_late(self) -> bool:
        return time.monotonic() >= self._ends_s

    def _solve(self, rate: float, integral: bool) -> Floats | None:
        """A solution; None if there is none, or no time to find one."""
        programme = self._model.programme(rate, integral)
        outcome = programme.solve(self._ends_s - time.monotonic(), ANY_SOLUTION)
        return outcome.x if outcome.optimal or (integral and outcome.x is not None) else None
