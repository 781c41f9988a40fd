"""The solver of InGo's linear programmes; `relaxation` says what they are."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator

import numpy as np

from wiresum.plan.assignment.instance import PS
from wiresum.planners.ingo.candidates import ROUNDING, candidates, highest, whole_flows
from wiresum.planners.ingo.choices import Choices, Way
from wiresum.planners.ingo.relaxation import Relaxation
from wiresum.planners.optimisation.programme import INFINITY, Programme
from wiresum.topology.graph import Floats

SLACK = 1e-6
"""Relative, of g while links are minimised."""
Row = tuple[list[tuple[int, float]], float, float]
"""Terms, and what their sum is at least and at most."""


def answers(question: str, time_limit_s: float) -> Iterator[str]:
    """Ever better relaxations, of the programme and the choices that are asked for."""
    bound, choices = json.loads(question)
    programmes = _Programmes(Choices.parse(choices), time_limit_s)
    for relaxation in programmes.papers() if bound is None else programmes.tightened(bound):
        shares = [[row.tolist() for row in side] for side in (relaxation.of_workers, relaxation.of_aggregators)]
        yield json.dumps([relaxation.rate, *shares])


class _Programmes:
    """Columns: g first, then the workers' ways, then the aggregators'."""

    def __init__(self, choices: Choices, time_limit_s: float) -> None:
        self._choices = choices
        self._ends_s = time.monotonic() + time_limit_s
        self._columns: list[Way] = [way for ways in (*choices.of_workers, *choices.of_aggregators) for way in ways]
        lengths = [len(ways) for ways in (*choices.of_workers, *choices.of_aggregators)]
        self._starts = np.concatenate([[1], 1 + np.cumsum(lengths)])
        self._uses: dict[int, list[tuple[int, float]]] = {}
        for column, way in enumerate(self._columns, start=1):
            for resource in way.resources:
                self._uses.setdefault(resource, []).append((column, 1.0))

    def papers(self) -> Iterator[Relaxation]:
        """The fastest, then the fastest with the fewest links."""
        x = self._solve(np.array([-1.0]), INFINITY, self._shared_capacities())
        if x is not None:
            rate = 1 / float(x[0])
            yield self._relaxation(rate, x)
            lean = self._solve(self._links(), (1 + SLACK) / rate, self._shared_capacities())
            if lean is not None:
                yield self._relaxation(rate, lean)

    def tightened(self, bound: float) -> Iterator[Relaxation]:
        """The one at the highest rate at which there is any, if it is found in time."""
        found: dict[float, Floats] = {}

        def holds(rate: float) -> bool:
            x = self._solve(self._links(), INFINITY, self._whole_capacities(rate))
            if x is not None:
                found[rate] = x
            return x is not None

        rates = candidates(self._choices.capacity, len(self._choices.of_workers))
        best = highest(rates[rates <= bound * (1 + ROUNDING)], holds)
        if best >= 0:
            rate = float(rates[best])
            yield self._relaxation(rate, found[rate])

    def _solve(self, costs: Floats, most_g: float, capacities: list[Row]) -> Floats | None:
        """The shares; None if there are none, or not in time."""
        padded = np.concatenate([costs, np.zeros(1 + len(self._columns) - len(costs))])
        programme = Programme(padded, np.concatenate([[most_g], np.ones(len(self._columns))]))
        for terms, low, high in (*self._one_way_each(), *self._sums_are_sent(), *capacities):
            programme.row(terms, low, high)
        outcome = programme.solve(self._ends_s - time.monotonic())
        return outcome.x if outcome.optimal else None

    def _relaxation(self, rate: float, x: Floats) -> Relaxation:
        shares = [x[first:last] for first, last in zip(self._starts, self._starts[1:], strict=False)]
        count = len(self._choices.of_workers)
        return Relaxation(rate, shares[:count], shares[count:])

    def _links(self) -> Floats:
        return np.array([0.0, *(-len(way.path) for way in self._columns)])

    def _one_way_each(self) -> list[Row]:
        """Eqs. (35) and (37)."""
        workers = len(self._choices.of_workers)
        return [([(column, 1.0) for column in self._of(one)], 1.0, 1.0) for one in range(workers)]

    def _sums_are_sent(self) -> list[Row]:
        """Eqs. (36) and (38): x_w^s ≤ Σ of the ways from s, for every worker and aggregator."""
        rows: list[Row] = []
        workers = len(self._choices.of_workers)
        for worker, ways in enumerate(self._choices.of_workers):
            by_aggregator: dict[int, list[tuple[int, float]]] = {}
            for column, way in zip(self._of(worker), ways, strict=True):
                if way.aggregator != PS:
                    by_aggregator.setdefault(way.aggregator, []).append((column, 1.0))
            for aggregator, terms in by_aggregator.items():
                rows.append(([*terms, *((column, -1.0) for column in self._of(workers + aggregator))], -INFINITY, 0.0))
        return rows

    def _shared_capacities(self) -> list[Row]:
        """Eqs. (39) to (41): flows ≤ capacity · g."""
        capacity = self._choices.capacity
        limited = [(resource, terms) for resource, terms in self._uses.items() if np.isfinite(capacity[resource])]
        return [([*terms, (0, -float(capacity[resource]))], -INFINITY, 0.0) for resource, terms in limited]

    def _whole_capacities(self, rate: float) -> list[Row]:
        """The same where flows are whole: at this rate, a capacity holds no part of another one."""
        room = whole_flows(self._choices.capacity, rate, len(self._choices.of_workers))
        rows = [(terms, -INFINITY, float(room[resource])) for resource, terms in self._uses.items()]
        return rows + self._fan_in(room)

    def _fan_in(self, room: Floats) -> list[Row]:
        """Σ x_w^s ≤ y^s times what the switch's links bring in, or it can add."""
        workers = len(self._choices.of_workers)
        ending: dict[int, list[tuple[int, float]]] = {}
        last_arcs: dict[int, set[int]] = {}
        for column, way in enumerate(self._columns[: int(self._starts[workers]) - 1], start=1):
            ending.setdefault(way.aggregator, []).append((column, 1.0))
            last_arcs.setdefault(way.aggregator, set()).add(way.path[-1])
        rows: list[Row] = []
        for aggregator in ending.keys() - {PS}:
            adder = self._columns[ending[aggregator][0][0] - 1].resources[-1]
            most = min(float(room[adder]), sum(float(room[arc]) for arc in last_arcs[aggregator]))
            sums = [(column, -most) for column in self._of(workers + aggregator)]
            rows.append(([*ending[aggregator], *sums], -INFINITY, 0.0))
        return rows

    def _of(self, side: int) -> range:
        return range(int(self._starts[side]), int(self._starts[side + 1]))
