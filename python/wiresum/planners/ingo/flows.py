"""All paths at once: at a given rate, whole flows on arcs instead of a choice among paths.

At rate f an arc holds ⌊B/f⌋ flows. Gradients flow from the workers to any aggregator that is open or to the server,
sums from the open aggregators to the server:

    aₑ, bₑ   gradients and sums on arc e, whole numbers          aₑ + bₑ ≤ ⌊B(e)/f⌋                         (39)
    t_s      gradients that end at aggregator s                  t_s ≤ y_s · min(|W|, ⌊C(s)/f⌋, Σ of its arcs)  (36, 40)
    y_s      1 where s is open, and then a source of one sum     t_d + Σ y_s ≤ ⌊N(d)/f⌋                     (41)

with conservation at every node. Any solution splits into paths, so this is InGo's problem with every simple path in its
sets, in some hundred columns. With fractions allowed it is a bound, the tightest here: y_s has to be as big as the
gradients at s need it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import numpy as np

from wiresum.plan.assignment import Instance
from wiresum.plan.assignment.instance import PS
from wiresum.planners.ingo.candidates import whole_flows
from wiresum.planners.ingo.choices import Way, capacities
from wiresum.planners.ingo.selection import Selection
from wiresum.topology.graph import Bools, Floats, Ints

if TYPE_CHECKING:
    from wiresum.planners.optimisation.programme import Programme


@dataclass(frozen=True)
class FlowNetwork:
    """What the solver's process needs of an instance; fields as in `Graph`, `Instance` and `Choices`."""

    source: Sequence[int]
    target: Sequence[int]
    forwards: Sequence[bool]
    workers: Sequence[int]
    aggregators: Sequence[int]
    capacity: Sequence[float]

    @classmethod
    def of(cls, instance: Instance) -> FlowNetwork:
        """An instance's."""
        graph = instance.graph
        return cls(
            source=graph.source.tolist(),
            target=graph.target.tolist(),
            forwards=graph.forwards.tolist(),
            workers=instance.workers.tolist(),
            aggregators=instance.aggregators.tolist(),
            capacity=capacities(instance).tolist(),
        )

    def to_json(self) -> str:
        """One line."""
        return json.dumps(asdict(self))

    @classmethod
    def parse(cls, text: str) -> FlowNetwork:
        """Reads that line."""
        return cls(**json.loads(text))


class FlowModel:
    """Columns: a on its arcs, b on its arcs, t of every aggregator, y of every aggregator but the server."""

    def __init__(self, network: FlowNetwork) -> None:
        self._network = network
        self._source, self._target = np.array(network.source), np.array(network.target)
        count = len(network.forwards)
        forwards, adds, server = np.array(network.forwards), np.zeros(count, dtype=np.bool_), network.aggregators[PS]
        adds[network.aggregators] = True
        trains = np.zeros(count, dtype=np.bool_)
        trains[network.workers] = True
        self._a = self._arcs(forwards | trains, forwards | adds)
        sends, ends = forwards | adds, forwards.copy()
        sends[server], ends[server] = False, True
        self._b = self._arcs(sends, ends)
        self._t = len(self._a) + len(self._b)
        self._y = self._t + len(network.aggregators)

    def _arcs(self, sends: Bools, receives: Bools) -> Ints:
        return np.flatnonzero(sends[self._source] & receives[self._target])

    def programme(self, rate: float, integral: bool) -> Programme:
        """At this rate; among its solutions, those with the fewest flows on arcs are best, so that none goes round."""
        from wiresum.planners.optimisation.programme import Programme

        network, workers, sums = self._network, len(self._network.workers), len(self._network.aggregators) - 1
        room = whole_flows(np.array(network.capacity), rate, workers)
        on_a, on_b = room[self._a], np.minimum(room[self._b], sums)
        upper = np.concatenate([on_a, on_b, np.full(sums + 1, float(workers)), np.ones(sums)])
        costs = np.zeros(len(upper))
        costs[: self._t] = -1.0
        made = Programme(costs, upper, [True] * len(upper) if integral else ())
        self._conserve_gradients(made)
        self._conserve_sums(made)
        self._share_arcs(made, room)
        self._open_aggregators(made, room)
        return made

    def _conserve_gradients(self, made: Programme) -> None:
        """What comes in, and begins at workers, goes out or ends at aggregators."""
        terms = self._balances(self._a, first=0)
        for index, node in enumerate(self._network.aggregators):
            terms[node].append((self._t + index, -1.0))
        begins = set(self._network.workers)
        for node, of_node in enumerate(terms):
            wanted = -1.0 if node in begins else 0.0
            if of_node or wanted:
                made.row(of_node, wanted, wanted)

    def _conserve_sums(self, made: Programme) -> None:
        """What comes in, and begins at open aggregators, goes out; all of it ends at the server."""
        terms = self._balances(self._b, first=len(self._a))
        for index, node in enumerate(self._network.aggregators[1:]):
            terms[node].append((self._y + index, 1.0))
        for node, of_node in enumerate(terms):
            if of_node and node != self._network.aggregators[PS]:
                made.row(of_node, 0.0, 0.0)

    def _balances(self, arcs: Ints, first: int) -> list[list[tuple[int, float]]]:
        """By node: its arcs in, and with −1 its arcs out."""
        terms: list[list[tuple[int, float]]] = [[] for _ in self._network.forwards]
        for column, arc in enumerate(arcs, start=first):
            terms[self._target[arc]].append((column, 1.0))
            terms[self._source[arc]].append((column, -1.0))
        return terms

    def _share_arcs(self, made: Programme, room: Floats) -> None:
        columns = dict(zip(self._b.tolist(), range(len(self._a), self._t), strict=True))
        for column, arc in enumerate(self._a.tolist()):
            if arc in columns:
                made.row([(column, 1.0), (columns[arc], 1.0)], high=float(room[arc]))

    def _open_aggregators(self, made: Programme, room: Floats) -> None:
        arcs = len(self._source)
        arriving = np.bincount(self._target[self._a], weights=room[self._a], minlength=len(self._network.forwards))
        for index, node in enumerate(self._network.aggregators[1:]):
            most = min(float(len(self._network.workers)), float(room[arcs + 1 + index]), float(arriving[node]))
            made.row([(self._t + 1 + index, 1.0), (self._y + index, -most)], high=0.0)
        opened = [(column, 1.0) for column in range(self._y, self._y + len(self._network.aggregators) - 1)]
        made.row([(self._t + PS, 1.0), *opened], high=float(room[arcs + PS]))

    def selection(self, x: Floats) -> Selection:
        """The paths of a solution in whole numbers."""
        whole = np.rint(x).astype(np.int64).tolist()
        gradients = dict(zip(self._a.tolist(), whole, strict=False))
        ending = dict(zip(self._network.aggregators, whole[self._t : self._y], strict=True))
        workers = [self._walk(worker, gradients, ending) for worker in self._network.workers]
        sums = dict(zip(self._b.tolist(), whole[len(self._a) : self._t], strict=True))
        used = sorted({way.aggregator for way in workers} - {PS})
        server = self._network.aggregators[PS]
        above = {one: self._walk(self._network.aggregators[one], sums, {server: len(used)}) for one in used}
        return Selection(workers, above)

    def _walk(self, node: int, flows: dict[int, int], ending: dict[int, int]) -> Way:
        """Follows flow and uses it up, until some ends where it is; a way that came round is cut short."""
        path: list[int] = []
        while ending.get(node, 0) == 0:
            arc = next(arc for arc in self._leaving(node) if flows.get(arc, 0) > 0)
            flows[arc] -= 1
            node = int(self._target[arc])
            path.append(arc)
            passed = [int(self._source[arc]) for arc in path]
            if node in passed:
                del path[passed.index(node) :]
        ending[node] -= 1
        aggregator = self._network.aggregators.index(node)
        return Way(aggregator, (*path, len(self._source) + aggregator))

    def _leaving(self, node: int) -> list[int]:
        return [int(arc) for arc in np.flatnonzero(self._source == node)]
