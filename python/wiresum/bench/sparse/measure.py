"""`wiresum bench sparse`: rows pushed, summed, applied and pulled again, in a second, beside what the plan predicts."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from wiresum.bench.result import Limit, Ratio, Report, Result
from wiresum.bench.sparse.worker import PRODUCT, ZEBRA, Task
from wiresum.deploy.daemon import find_binary
from wiresum.deploy.server import Server, start_server
from wiresum.errors import TestbedError
from wiresum.plan.sparse import SparsePart
from wiresum.planners import place_rows
from wiresum.planners.tiers.instance import SparseInstance, servers_of
from wiresum.predict.sparse import SparseNetwork
from wiresum.sparse.counts import Counts
from wiresum.sparse.hot import hot_map
from wiresum.sparse.job import sparse_job
from wiresum.sparse.profile import HOT_ROWS
from wiresum.sparse.spec import parse
from wiresum.sparse.trace import Trace
from wiresum.testbed import Testbed
from wiresum.topology.generators.star import star

COUNTED_ROUNDS = 2
"""As many as the planner counts elsewhere."""
PORT = 5747
WARMUPS = 2
"""Rounds before those that are measured: windows find their size."""
PATIENCE_S = 540.0
"""A worker that takes longer than this with all its rounds has failed."""


@dataclass(frozen=True)
class Options:
    """What to measure, on which links.

    Attributes:
        trace: what the workers replay.
        workers: hosts that push and pull.
        servers: hosts that keep tables.
        rate_bps: of each link, each way.
        rounds: measured ones of each method.
        against: rivals, one after the other on the same links.
    """

    trace: str = "criteo:scale=0.1,batch=512"
    workers: int = 8
    servers: int = 1
    rate_bps: float = 100e6
    rounds: int = 8
    against: tuple[str, ...] = ("push_pull",)


def measure(options: Options) -> Report:
    """Sets up the links, runs every method one after the other, and takes the links down.

    Args:
        options: what to measure.

    Raises:
        TraceError: the trace cannot be.
        TestbedError: a worker or server failed; the message has the end of its output.
    """
    trace = parse(options.trace)
    topology = star(options.workers, options.rate_bps, servers=options.servers)
    network = SparseNetwork(topology, servers_of(topology))
    part = place_rows(
        SparseInstance(network, trace.tables.tables, Counts.of(trace, options.workers, COUNTED_ROUNDS)), "tiers"
    )
    touched = [_touched(trace, rank, options) for rank in range(options.workers)]
    seconds, notes = {}, []
    for method in (PRODUCT, *options.against):
        with Testbed(topology) as bed:
            run = _Run(bed, trace, part, options, method)
            seconds[method] = run.rounds(touched)
            notes += [*bed.left_out, *run.notes]
            shaped = not bed.why_loopback
    return _report(options, part, touched, seconds, notes, shaped=shaped)


def _touched(trace: Trace, rank: int, options: Options) -> list[list[list[int]]]:
    """Rows of each round and table that a worker pushes, as their numbers in the table."""
    rounds = []
    for number in range(WARMUPS + options.rounds + 1):
        keys = trace.pushed(number, rank, options.workers)
        ends = np.searchsorted(keys, trace.first_keys)
        parts = zip(ends[:-1], ends[1:], trace.first_keys[:-1], strict=True)
        rounds.append([(keys[begin:end] - first).tolist() for begin, end, first in parts])
    return rounds


def _hot_rows(method: str, part: SparsePart) -> tuple[int, int]:
    """Rows that workers keep, and rows that the switch sums for the servers."""
    if method == PRODUCT:
        return part.replicated_rows, part.summed_rows
    rows = sum(table.rows for table in part.tables)
    return (0, min(HOT_ROWS, rows)) if method == ZEBRA else (0, 0)


class _Run:
    """One method on a testbed."""

    def __init__(self, bed: Testbed, trace: Trace, part: SparsePart, options: Options, method: str) -> None:
        self.notes: list[str] = []
        self._bed, self._options, self._method = bed, options, method
        replicated, summed = _hot_rows(method, part)
        hot = hot_map(trace, replicated, summed) if replicated + summed else None
        ports = iter(range(PORT, PORT + options.servers + 1))
        servers = [f"{bed.address(name)}:{next(ports)}" for name in part.servers]
        switches = [f"{bed.address('switch')}:{next(ports)}"] if hot else []
        self._nodes = [*part.servers, *(["switch"] if hot else [])]
        text = sparse_job(trace.tables.tables, options.workers, servers, switches, hot=hot)
        self._job = Path(bed.folder) / "sparse-job.json"
        self._job.write_text(text, encoding="utf-8")

    def rounds(self, touched: Sequence[list[list[list[int]]]]) -> list[float]:
        """Seconds of each measured round: those of its slowest worker."""
        servers = [self._server(number, node) for number, node in enumerate(self._nodes)]
        try:
            for server in servers:
                server.await_ready()
            answers = self._play(touched)
        finally:
            for server in servers:
                server.end()
        repeated = sum(answer["sent"].get("messages_repeated", 0) for answer in answers)
        sent = sum(answer["sent"].get("datagrams_sent", 0) for answer in answers)
        if sent:
            self.notes.append(f"{self._method}: workers sent {sent} datagrams, and {repeated} messages again")
        return [max(one) for one in zip(*(answer["seconds"] for answer in answers), strict=True)][WARMUPS:]

    def _server(self, number: int, node: str) -> Server:
        if self._method in (PRODUCT, ZEBRA):
            command = [find_binary(), "--tables", str(self._job), "--node", str(number), "--json"]
        else:
            command = self._worker(Task("serve", str(self._job), number))
        return start_server(self._bed, node, command, f"{self._method}-{number}")

    def _play(self, touched: Sequence[list[list[list[int]]]]) -> list[dict[str, Any]]:
        incarnation = time.time_ns() // 1000
        children = []
        for rank, rows in enumerate(touched):
            trace = Path(self._bed.folder) / f"touched-{rank}.json"
            trace.write_text(json.dumps(rows), encoding="utf-8")
            task = Task(self._method, str(self._job), rank, incarnation, str(trace))
            pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
            children.append(self._bed.spawn(f"w{rank}", self._worker(task), **pipes))
        return [self._answer(rank, child) for rank, child in enumerate(children)]

    def _answer(self, rank: int, child: subprocess.Popen[bytes]) -> dict[str, Any]:
        try:
            output, errors = child.communicate(timeout=PATIENCE_S)
        except subprocess.TimeoutExpired:
            raise TestbedError(f"{self._method}: worker {rank} takes longer than {PATIENCE_S:g} s") from None
        if child.returncode:
            last = errors.decode(errors="replace").strip().splitlines()[-1:] or ["it said nothing"]
            raise TestbedError(f"{self._method}: worker {rank} ended with {child.returncode}: {last[0]}")
        answer: dict[str, Any] = json.loads(output)
        return answer

    @staticmethod
    def _worker(task: Task) -> list[str]:
        return [sys.executable, "-m", "wiresum.bench.sparse.worker", task.to_json()]


def _report(
    options: Options,
    part: SparsePart,
    touched: Sequence[list[list[list[int]]]],
    seconds: dict[str, list[float]],
    notes: Sequence[str],
    *,
    shaped: bool,
) -> Report:
    pushed = [
        sum(len(keys) for rows in touched for keys in rows[number]) for number in range(WARMUPS, len(touched[0]) - 1)
    ]
    gains = {PRODUCT: 1.0, ZEBRA: part.gains.zebra, "push_pull": part.gains.push_pull}
    predicted = {method: part.updates_per_second / gain for method, gain in gains.items()}
    results = []
    for method, rounds in seconds.items():
        rates = [rows / taken for rows, taken in zip(pushed, rounds, strict=True)]
        results.append(Result(method, "updates/s", rates, {"predicted": predicted[method], "seconds": rounds}))
    median = {result.name: result.median for result in results}
    ratios = [Ratio(f"{PRODUCT} / {name}", median[PRODUCT] / median[name]) for name in options.against]
    ratios += [Ratio(f"{name} / its prediction", median[name] / predicted[name]) for name in median if shaped]
    parameters = {
        "trace": options.trace,
        "workers": options.workers,
        "servers": options.servers,
        "rate_bps": options.rate_bps if shaped else None,
        "replicated_rows": part.replicated_rows,
        "summed_rows": part.summed_rows,
        "rows_pushed": pushed,
        "predicted_gain": part.gains.push_pull,
        "topology": "star in network namespaces, shaped by tbf" if shaped else "loopback, unshaped",
    }
    explanation = f"the plan's prediction, by bytes of rows and keys; bottleneck {part.bottleneck}"
    limit = Limit(part.updates_per_second, "updates/s", explanation) if shaped else None
    return Report("sparse", parameters, results, ratios, limit, notes)
