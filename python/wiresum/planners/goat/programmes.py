"""Eq. (1) as programmes for HiGHS. Only the solver's own process loads this module."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from wiresum.plan.assignment.instance import PS
from wiresum.planners.goat.coverage import Coverage
from wiresum.planners.goat.problem import Problem
from wiresum.planners.optimisation.programme import INFINITY, Indices, Programme, SolverOutcome
from wiresum.topology.graph import Bools, Floats


@dataclass(frozen=True, eq=False)
class Found:
    """A point and a bound, in bytes × links.

    Attributes:
        x: (aggregators, sub-models); None if none was found.
        bound: no point is below.
    """

    x: Floats | None
    bound: float

    @property
    def opened(self) -> Bools | None:
        """What an integral point opens."""
        return None if self.x is None else self.x > 0.5  # noqa: PLR2004 - of 0 and 1


def relaxed_bound(problem: Problem, time_limit_s: float) -> Found:
    """The bound of Eq. (1) relaxed, by one sub-model of all bytes.

    Relaxed, the rows of all sub-models are the same but for their size, so the size-weighted mean of their x is as good
    as the x themselves.
    """
    whole = problem.part(np.array([0]), problem.memory)
    scale = int(problem.sizes.sum())
    found = _solve(
        Problem(whole.hops, whole.workers, whole.climb, np.array([scale]), whole.memory), False, time_limit_s
    )
    x = None if found.x is None else np.repeat(found.x, len(problem.sizes), axis=1)
    return Found(x, found.bound)


def relaxed(problem: Problem, time_limit_s: float) -> Found:
    """Eq. (1) with fractions of sub-models: a vertex, in which most of them are whole."""
    return _solve(problem, False, time_limit_s)


def exact(problem: Problem, time_limit_s: float, gap: float) -> Found:
    """Eq. (1)."""
    return _solve(problem, True, time_limit_s, gap)


def as_printed(problem: Problem, time_limit_s: float) -> Found:
    """Eq. (4) relaxed, as printed: maximise Σ (Σ_w y − x) · D_s(PS) · b(g).

    Its gain does not depend on the worker, so y = x at the optimum if there are two workers or more, and one column for
    each sub-model and switch is left.
    """
    switches, sub_models = len(problem.climb) - 1, len(problem.sizes)
    unit = float(problem.sizes.max())
    gain = (int(problem.workers.sum()) - 1) * np.outer(problem.sizes / unit, problem.climb[1:])
    programme = Programme(gain.ravel(), np.ones(gain.size))
    columns = np.arange(gain.size).reshape(gain.shape)
    programme.rows(
        np.full(sub_models, switches),
        columns.ravel(),
        np.ones(gain.size),
        np.full(sub_models, -INFINITY),
        np.ones(sub_models),
    )
    _add_memory(programme, problem, columns)
    outcome = programme.solve(time_limit_s)
    return Found(None if outcome.x is None else _with_server(outcome.x.reshape(gain.shape).T), 0.0)


def _solve(problem: Problem, integral: bool, time_limit_s: float, gap: float = 0.0) -> Found:
    coverage = Coverage.of(problem)
    switches = coverage.members.shape[1]
    sub_models, unit = len(problem.sizes), float(problem.sizes.max())
    one = np.concatenate([-problem.climb[1:], coverage.weight])
    programme = Programme(
        np.outer(problem.sizes / unit, one).ravel(),
        np.ones(sub_models * coverage.columns),
        np.tile(np.arange(coverage.columns) < switches, sub_models).tolist() if integral else (),
    )
    _add_balls(programme, coverage, sub_models)
    first = np.arange(sub_models)[:, None] * coverage.columns
    _add_memory(programme, problem, first + np.arange(switches))
    outcome = programme.solve(time_limit_s, gap)
    return _in_bytes(outcome, problem, coverage, unit)


def _in_bytes(outcome: SolverOutcome, problem: Problem, coverage: Coverage, unit: float) -> Found:
    base = float(coverage.base) * float(problem.sizes.sum())
    bound = base - unit * outcome.bound if np.isfinite(outcome.bound) else 0.0
    if outcome.x is None:
        return Found(None, bound)
    by_sub_model = outcome.x.reshape(len(problem.sizes), coverage.columns)
    return Found(_with_server(by_sub_model[:, : coverage.members.shape[1]].T), bound)


def _add_balls(programme: Programme, coverage: Coverage, sub_models: int) -> None:
    """Z − Σ x ≤ 0, for each sub-model and ball."""
    balls, switches = coverage.members.shape
    row, switch = np.nonzero(coverage.members)
    rows = np.concatenate([row, np.arange(balls)])
    order = np.argsort(rows, kind="stable")
    columns = np.concatenate([switch, switches + np.arange(balls)])[order]
    values = np.concatenate([-np.ones(len(switch)), np.ones(balls)])[order]
    first: Indices = np.arange(sub_models)[:, None] * coverage.columns
    programme.rows(
        np.tile(np.bincount(rows, minlength=balls), sub_models),
        (first + columns).ravel(),
        np.tile(values, sub_models),
        np.full(balls * sub_models, -INFINITY),
        np.zeros(balls * sub_models),
    )


def _add_memory(programme: Programme, problem: Problem, columns: Indices) -> None:
    """Σ_g x · b(g) ≤ B(s), with the largest sub-model as unit; `columns` are (sub-models, switches)."""
    unit, room = float(problem.sizes.max()), problem.memory[1:]
    bounded = np.flatnonzero(np.isfinite(room))
    sub_models = len(problem.sizes)
    programme.rows(
        np.full(len(bounded), sub_models),
        columns[:, bounded].T.ravel(),
        np.tile(problem.sizes / unit, len(bounded)),
        np.full(len(bounded), -INFINITY),
        room[bounded] / unit,
    )


def _with_server(x: Floats) -> Floats:
    """With the parameter server's row, where everything may be summed."""
    return np.insert(x, PS, 1.0, axis=0)
