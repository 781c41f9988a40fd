"""Sparse jobs as flows: gradients up, sums onward, and weights down, all under way at once.

A switch sends a sum when all workers have given or passed the row, and a server tells weights when they are there, so
sums are never ahead of the gradients that they are made of, nor weights of what their server has got. Each round is a
max-min fair fluid of `predict.fluid`, with the bytes of exactly the rows that are touched. Servers are taken to have
equal shares of a worker's rows. A dense gradient is summed beside them over the same links, and a round ends with both.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from wiresum.plan.rows import PlanSparse
from wiresum.predict import flows_of
from wiresum.predict.flow import Flow
from wiresum.predict.fluid import simulate
from wiresum.predict.forms import Form, Forms, packets
from wiresum.sim.outcome import Record, SimulationOutcome
from wiresum.sim.rows import PlannedRows
from wiresum.sparse.randomness import Ints
from wiresum.topology.paths import Capacity, RoutedTopology

ROWS = "rows"
"""Kind of flow, beside those of a dense gradient."""
Sent = tuple[str, str, float]
"""Who sends, to whom, and bytes on the wire."""


def run_row_flows(planned: PlannedRows) -> SimulationOutcome:
    """Simulates all rounds."""
    outcome, rounds = SimulationOutcome(), _Rounds(planned)
    network = RoutedTopology(planned.topology)
    dense = flows_of(planned.topology, planned.plan, planned.job.dense_bytes) if planned.job.dense_bytes else None
    capacities = {**network.capacities, **(dense.capacities if dense else {})}
    carried: dict[Capacity, float] = defaultdict(float)
    now, events = 0.0, 0
    for number in range(planned.job.rounds):
        begin = now
        flows: list[Flow] = list(dense.flows) if dense else []
        for phase in (rounds.up(number), rounds.onward(number), rounds.down(number)):
            fed = [
                Flow(planned.job.name, ROWS, source, target, network.path(source, target), sent,
                     feeds=tuple(index for index, flow in enumerate(flows)
                                 if (flow.kind, flow.target) == (ROWS, source)))
                for source, target, sent in phase
                if sent and source != target
            ]  # fmt: skip
            flows += fed
        events += len(flows)
        now += max((spans[-1].end_seconds for spans in simulate(flows, capacities) if spans), default=0.0)
        for flow in flows:
            for direction in flow.path:
                carried[direction] += flow.wire_bytes
        outcome.take(_round(planned.job.name, number, begin, now))
    for record in _links(planned, carried):
        outcome.take(record)
    end = {"at_s": now, "events": events, "packet_hops": 0, "trace": "", "checked_values": 0}
    outcome.take({"record": "end", **end})
    return outcome


@dataclass(frozen=True)
class _Rounds:
    """What the phases of a round send."""

    planned: PlannedRows

    def up(self, number: int) -> Iterator[Sent]:
        """Gradients of hot rows to their switches, of others to their servers, and questions for the next weights."""
        for worker, keys in self._by_worker(number):
            hot, cold = self._split(keys)
            for node, part in self._leaves(worker, hot):
                yield worker, node, self._bytes(part, self._forms.hot_rows)
            yield from self._spread(worker, self._bytes(cold, self._forms.push))
        for node, above, beneath in self._inner:
            rows = [self._split(keys)[0] for worker, keys in self._by_worker(number) if worker in beneath]
            yield node, above, self._bytes(np.unique(np.concatenate(rows)), self._forms.partial_sums)
        for worker, keys in self._wanted(number + 1):
            yield from self._spread(worker, self._bytes(keys, self._forms.pull))

    def onward(self, number: int) -> Iterator[Sent]:
        """Sums of rows that workers keep to all of them, of others to their servers."""
        union = np.unique(np.concatenate([keys for _, keys in self._by_worker(number)]))
        for node, part in self._of_switches(self._split(union)[0]):
            kept = part[self._ranks(part) < self._kept]
            others = part[self._ranks(part) >= self._kept]
            for above, child in self._results(node):
                yield above, child, self._bytes(kept, self._forms.hot_sums)
            yield from self._spread(node, self._bytes(others, self._forms.row_sums))

    def down(self, number: int) -> Iterator[Sent]:
        """Weights of the next round's rows."""
        for worker, keys in self._wanted(number + 1):
            for _, server, sent in self._spread(worker, self._bytes(keys, self._forms.weights)):
                yield server, worker, sent

    def _wanted(self, number: int) -> Iterator[tuple[str, Ints]]:
        """By worker, the rows that it does not keep."""
        for worker, keys in self._by_worker(number):
            yield worker, keys[self._ranks(keys) >= self._kept]

    @property
    def _sparse(self) -> PlanSparse:
        assert self.planned.plan.sparse is not None
        return self.planned.plan.sparse

    @property
    def _forms(self) -> Forms:
        return packets(self._sparse.packet_bytes)

    @property
    def _kept(self) -> int:
        return self._sparse.hot.replicated if self._sparse.hot else 0

    def _by_worker(self, number: int) -> Iterable[tuple[str, Ints]]:
        return zip((worker.name for worker in self.planned.plan.workers), self.planned.pushed[number], strict=True)

    def _ranks(self, keys: Ints) -> Ints:
        return self.planned.trace.ranks(keys)

    def _split(self, keys: Ints) -> tuple[Ints, Ints]:
        hot = self._kept + (self._sparse.hot.summed if self._sparse.hot else 0)
        is_hot = self._ranks(keys) < hot
        return keys[is_hot], keys[~is_hot]

    def _of_switches(self, keys: Ints) -> Iterator[tuple[str, Ints]]:
        """Each switch at which sums are complete with its hot rows; a row's position is its rank."""
        roots = self._sparse.switches[:1] if self._sparse.tree else self._sparse.switches
        for number, switch in enumerate(roots):
            yield self._names[switch.node], keys[self._ranks(keys) % len(roots) == number]

    def _leaves(self, worker: str, keys: Ints) -> Iterator[tuple[str, Ints]]:
        """The switches that a worker sends hot rows to, with these."""
        if tree := self._sparse.tree:
            rank = next(one.rank for one in self.planned.plan.workers if one.name == worker)
            yield self._switch(tree["leaves"][rank]), keys
        else:
            yield from self._of_switches(keys)

    @property
    def _inner(self) -> Iterator[tuple[str, str, set[str]]]:
        """Switches beneath others: name, that of the one above, workers whose rows it has."""
        tree = self._sparse.tree or {"parents": [], "leaves": []}
        above = dict(enumerate(tree["parents"], start=1))
        workers = [worker.name for worker in self.planned.plan.workers]
        beneath: dict[int, set[str]] = {number: set() for number in above}
        for worker, leaf in zip(workers, tree["leaves"], strict=False):
            number: int | None = leaf
            while number is not None and number in above:
                beneath[number].add(worker)
                number = above.get(number)
        for number, parent in above.items():
            yield self._switch(number), self._switch(parent), beneath[number]

    def _results(self, root: str) -> Iterator[tuple[str, str]]:
        """Who sends results to whom, from the switch at which they are complete."""
        inner, tree = list(self._inner), self._sparse.tree
        yield from ((above, node) for node, above, _ in inner)
        for worker in self.planned.plan.workers:
            yield self._switch(tree["leaves"][worker.rank]) if tree else root, worker.name

    def _switch(self, number: int) -> str:
        return self._names[self._sparse.switches[number].node]

    @property
    def _names(self) -> dict[int, str]:
        return {node.id: node.name for node in self.planned.plan.nodes}

    def _spread(self, end: str, sent: float) -> Iterator[Sent]:
        servers = self._sparse.servers
        for server in servers:
            yield end, server.name, sent / len(servers)

    def _bytes(self, keys: Ints, form: Form) -> float:
        trace = self.planned.trace
        return float(form.bytes_of(trace.row_bytes(keys), trace.wide_row_bytes(keys)).sum()) if len(keys) else 0.0


def _round(job: str, number: int, begin: float, end: float) -> Record:
    times = {"begin_s": begin, "last_begin_s": begin, "end_s": end}
    return {"record": "round", "job": job, "round": number, **times}


def _links(planned: PlannedRows, carried: Mapping[Capacity, float]) -> Iterator[Record]:
    for link in planned.topology.links:
        for source, target in ((link.source, link.target), (link.target, link.source)):
            sent = carried.get(Capacity(link.id, source, target), 0.0)
            yield {
                "record": "link", "link": link.id, "source": source, "target": target,
                "rate_bps": link.bandwidth_from(source), "wire_bytes": sent,
                "dropped_bytes": 0, "lost_bytes": 0, "marked_packets": 0, "queue_bytes_max": 0,
            }  # fmt: skip
