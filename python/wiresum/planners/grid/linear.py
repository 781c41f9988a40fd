"""GRID's linear programme.

For groups g of n_g workers, aggregators s and the server d:

    max λ,  λ ≤ Σ_a r_ga,  r_gs ≤ y_s,  Σ_g n_g r_gs ≤ C_s,  Σ_g n_g r_gd + Σ_s y_s ≤ N

where r are rates, y_s the rate of a switch's sum, C what a switch and N what the server can add.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np

from wiresum.plan.assignment.instance import PS
from wiresum.planners.optimisation.programme import INFINITY, Programme, SolverOutcome
from wiresum.topology.graph import UNREACHABLE, Floats

UNIT_BPS = 1e9
SLACK = 1e-6
"""Relative, of λ while links are minimised."""


def answers(question: str, time_limit_s: float) -> Iterator[str]:
    """λ and r: first of any optimum, then of the one over the fewest links."""
    columns = _Columns(json.loads(question))
    limit_s = time_limit_s / 2
    fastest = columns.solve(limit_s, 0.0)
    if fastest.x is None:
        return
    yield columns.answer(fastest.x)
    leanest = columns.solve(limit_s, float(fastest.x[0]) * (1 - SLACK))
    if leanest.x is not None:
        yield columns.answer(leanest.x)


class _Columns:
    """λ, then y of every aggregator, then r by groups; those of ways that do not exist are kept at 0."""

    def __init__(self, question: dict[str, Any]) -> None:
        self._size = np.array(question["workers"], dtype=np.float64)
        self._hops = np.array(question["hops"], dtype=np.float64)
        self._up = np.array(question["hops_to_server"], dtype=np.float64)
        self._adding = np.array(question["adding_bps"]) / UNIT_BPS
        self._groups, self._aggregators = len(self._size), len(self._up)

    def _r(self, group: int, aggregator: int) -> int:
        return 1 + self._aggregators * (1 + group) + aggregator

    def solve(self, limit_s: float, least: float) -> SolverOutcome:
        """The highest λ; given a least one, the fewest links at it."""
        reached = self._hops < UNREACHABLE
        upper = np.concatenate(
            [[INFINITY], np.full(self._aggregators, INFINITY), np.where(reached, INFINITY, 0).ravel()]
        )
        links = -np.concatenate([[0.0], self._up, (self._size[:, None] * self._hops * reached).ravel()])
        fastest = np.concatenate([[1.0], np.zeros(len(upper) - 1)])
        programme = Programme(links if least else fastest, upper)
        programme.row([(0, 1.0)], low=least)
        for group in range(self._groups):
            rates = [(self._r(group, one), 1.0) for one in range(self._aggregators)]
            programme.row([*rates, (0, -1.0)], low=0.0)
            for one in range(1, self._aggregators):
                programme.row([(self._r(group, one), 1.0), (1 + one, -1.0)], high=0.0)
        for one in range(self._aggregators):
            arriving = [(self._r(group, one), float(self._size[group])) for group in range(self._groups)]
            sums = [(1 + other, 1.0) for other in range(1, self._aggregators)] if one == PS else []
            programme.row([*arriving, *sums], high=float(self._adding[one]))
        return programme.solve(limit_s)

    def answer(self, x: Floats) -> str:
        """One line."""
        rates = x[1 + self._aggregators :].reshape(self._groups, self._aggregators)
        return json.dumps([float(x[0]) * UNIT_BPS, rates.tolist()])
