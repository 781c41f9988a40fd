"""`wiresum bench sparse`: rows pushed, summed, applied and pulled again, in a second, beside what the plan predicts."""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any

from wiresum.bench.result import Limit, Ratio, Report, Result
from wiresum.bench.sparse.command import Options
from wiresum.bench.sparse.pool import measure_pool
from wiresum.bench.sparse.worker import POOL, PRODUCT, PUSH_PULL, ZEBRA, Task, rival
from wiresum.bench.workers import answers
from wiresum.deploy.tables import TableDaemons
from wiresum.plan.incarnation import next_incarnation
from wiresum.plan.sparse import SparsePart
from wiresum.planners import place_rows
from wiresum.planners.tiers.instance import SparseInstance, servers_of
from wiresum.predict.sparse import SparseNetwork
from wiresum.sparse.counts import Counts
from wiresum.sparse.hot import hot_map
from wiresum.sparse.job import sparse_job
from wiresum.sparse.spec import parse
from wiresum.sparse.trace import Trace
from wiresum.testbed import Testbed
from wiresum.testbed.tables import over_xdp
from wiresum.topology.generators.star import star

COUNTED_ROUNDS = 2
"""As many as the planner counts elsewhere."""
PORT = 5747
WARMUPS = 2
"""Rounds before those that are measured: windows find their size."""
PATIENCE_S = 540.0
"""A worker that takes longer than this with all its rounds has failed."""


@dataclass(frozen=True)
class _Played:
    """What a method's rounds took.

    Attributes:
        seconds: of each measured round.
        server_bytes: that all rounds have brought to the servers' links; None without links, or without servers.
        predicted: updates/s.
        cpu_seconds: that processes took with all rounds, warm-ups too and without their starts, by host; what the
            kernel does with packets in nobody's name is not in them.
    """

    seconds: list[float]
    server_bytes: int | None
    predicted: float
    cpu_seconds: dict[str, float] = field(default_factory=dict)


def measure(options: Options) -> Report:
    """Sets up the links, runs every method one after the other, and takes the links down.

    Args:
        options: what to measure.

    Raises:
        TraceError: the trace cannot be.
        TestbedError: a worker or server failed; the message has the end of its output.
    """
    trace = parse(options.trace)
    servers = 0 if options.beside else options.servers
    topology = star(options.workers, options.rate_bps, servers=servers).with_loss(options.loss)
    network = SparseNetwork(topology, servers_of(topology, beside=options.beside))
    counts = Counts.of(trace, options.workers, COUNTED_ROUNDS)
    part = place_rows(SparseInstance(network, trace.tables.tables, counts, replicas=options.replicas), "tiers")
    touched = [_touched(trace, rank, options) for rank in range(options.workers)]
    pushed = _pushed(touched)
    gains = {PRODUCT: 1.0, ZEBRA: part.gains.zebra, PUSH_PULL: part.gains.push_pull}
    played: dict[str, _Played] = {}
    notes: list[str] = []
    for method in (PRODUCT, *options.against):
        if method == POOL:
            pool = measure_pool(topology, trace.tables.tables, options.engine, rounds=options.rounds, warmups=WARMUPS)
            played[method] = _Played(list(pool.seconds), None, fmean(pushed) / pool.bound)
            notes += pool.notes
            continue
        with Testbed(topology, in_kernel=["switch"] if options.rows_engine == "xdp" else []) as bed:
            run = _Run(bed, trace, part, options, method)
            predicted = part.updates_per_second / gains[method]
            played[method] = _Played(run.rounds(touched), run.server_bytes(), predicted, run.cpu_seconds)
            notes += [*bed.left_out, *run.notes]
            shaped = not bed.why_loopback
    return _report(options, part, pushed, played, notes, shaped=shaped)


def _pushed(touched: Sequence[list[list[list[int]]]]) -> list[int]:
    """Rows that all workers push in each measured round."""
    return [
        sum(len(keys) for rows in touched for keys in rows[number]) for number in range(WARMUPS, len(touched[0]) - 1)
    ]


def cpu_seconds(pid: int) -> float:
    """Seconds of CPU that a process that is there has taken, its own and the kernel's for it."""
    after_name = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return sum(map(int, after_name[11:13])) / os.sysconf("SC_CLK_TCK")


def _touched(trace: Trace, rank: int, options: Options) -> list[list[list[int]]]:
    """Rows of each round and table that a worker pushes, as their numbers in the table."""
    rounds = range(WARMUPS + options.rounds + 1)
    return [trace.rows_by_table(trace.pushed(number, rank, options.workers)) for number in rounds]


def _hot_rows(method: str, part: SparsePart, wanted: int) -> tuple[int, int]:
    """Rows that workers keep, and rows that the switch sums for the servers."""
    if method == PRODUCT:
        return part.replicated_rows, part.summed_rows
    rows = sum(table.rows for table in part.tables)
    return (0, min(wanted, rows)) if method == ZEBRA else (0, 0)


class _Run:
    """One method on a testbed."""

    def __init__(self, bed: Testbed, trace: Trace, part: SparsePart, options: Options, method: str) -> None:
        self.notes: list[str] = []
        self.cpu_seconds: dict[str, float] = {}
        self._bed, self._options, self._method = bed, options, method
        replicated, summed = _hot_rows(method, part, options.hot_rows)
        hot = hot_map(trace, replicated, summed) if replicated + summed else None
        ports = itertools.count(PORT)
        servers = [f"{bed.address(name)}:{next(ports)}" for name in part.servers]
        switches = [f"{bed.address('switch')}:{next(ports)}"] if hot else []
        self._nodes = [*part.servers, *(["switch"] if hot else [])]
        text = sparse_job(trace.tables.tables, options.workers, servers, switches, hot=hot)
        in_kernel = ["switch"] if options.rows_engine == "xdp" else []
        command = over_xdp(bed, self._nodes, in_kernel) if method in (PRODUCT, ZEBRA) else rival
        self._daemons = TableDaemons(bed, text, self._nodes, command, method)

    def rounds(self, touched: Sequence[list[list[list[int]]]]) -> list[float]:
        """Seconds of each measured round: those of its slowest worker."""
        with self._daemons as daemons:
            before = [cpu_seconds(server.process.pid) for server in daemons.servers]
            found = self._play(touched)
            after = [cpu_seconds(server.process.pid) for server in daemons.servers]
        self.cpu_seconds = {node: end - begin for node, begin, end in zip(self._nodes, before, after, strict=True)}
        self.cpu_seconds["workers"] = sum(answer["cpu_seconds"] for answer in found)
        repeated = sum(answer["sent"].get("messages_repeated", 0) for answer in found)
        sent = sum(answer["sent"].get("datagrams_sent", 0) for answer in found)
        if sent:
            self.notes.append(f"{self._method}: workers sent {sent} datagrams, and {repeated} messages again")
        rounds = [max(one) for one in zip(*(answer["seconds"] for answer in found), strict=True)]
        busy, cores = sum(self.cpu_seconds.values()), os.cpu_count()
        self.notes.append(f"{self._method}: {busy:.2f} s of CPU in {sum(rounds):.2f} s of rounds, on {cores} cores")
        return rounds[WARMUPS:]

    def server_bytes(self) -> int | None:
        """Bytes that all rounds have brought to the servers' links; None without links."""
        if self._bed.why_loopback:
            return None
        servers = {server for server in self._nodes if server != "switch"}
        carried = self._bed.link_bytes()
        ends = [(link.target in servers, link.source in servers, carried[link.id]) for link in self._bed.topology.links]
        return sum(there * into + back * out for into, out, (there, back) in ends)

    def _play(self, touched: Sequence[list[list[list[int]]]]) -> list[dict[str, Any]]:
        incarnation = next_incarnation()
        commands = []
        for rank, rows in enumerate(touched):
            trace = Path(self._bed.folder) / f"touched-{rank}.json"
            trace.write_text(json.dumps(rows), encoding="utf-8")
            commands.append(Task(self._method, str(self._daemons.job_file), rank, incarnation, str(trace)).command())
        return answers(self._bed, commands, self._method, PATIENCE_S)


def _report(
    options: Options,
    part: SparsePart,
    pushed: Sequence[int],
    played: dict[str, _Played],
    notes: Sequence[str],
    *,
    shaped: bool,
) -> Report:
    results = []
    for method, one in played.items():
        rates = [rows / taken for rows, taken in zip(pushed, one.seconds, strict=True)]
        results.append(Result(method, "updates/s", rates, vars(one)))
    median = {result.name: result.median for result in results}
    ratios = [Ratio(f"{PRODUCT} / {name}", median[PRODUCT] / median[name]) for name in options.against]
    ratios += [Ratio(f"{name} / its prediction", median[name] / played[name].predicted) for name in median if shaped]
    parameters = {
        "trace": options.trace,
        "workers": options.workers,
        "servers": len(part.servers),
        "beside": options.beside,
        "rate_bps": options.rate_bps if shaped else None,
        "loss": options.loss,
        "replicated_rows": part.replicated_rows,
        "summed_rows": part.summed_rows,
        "rows_pushed": list(pushed),
        "predicted_gain": part.gains.push_pull,
        "topology": "star in network namespaces, shaped by tbf" if shaped else "loopback, unshaped",
    }
    explanation = f"the plan's prediction, by bytes of rows and keys; bottleneck {part.bottleneck}"
    limit = Limit(part.updates_per_second, "updates/s", explanation) if shaped else None
    return Report("sparse", parameters, results, ratios, limit, notes)
