"""The live answer to a scenario with rows: servers of tables and switches as daemons, and workers that replay.

Workers are native. Where a dense gradient is summed beside the rows, a worker is a thread of each of both engines: it
ends the round, asks for the next rows, sums, and waits for the rows.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np

from wiresum.bench.scenario.measured import Direction, Measured, directions
from wiresum.deploy.tables import TableDaemons
from wiresum.plan.aggregation_plan import LANE_BYTES, AggregationPlan
from wiresum.plan.choices import DEFAULT_MTU_BYTES
from wiresum.plan.choices import Engine as EngineName
from wiresum.plan.incarnation import next_incarnation
from wiresum.plan.rows import ROWS_PORT
from wiresum.sim import ScenarioFile
from wiresum.sim.resolve import LoadTopology, topology_of
from wiresum.sim.rows import planned_rows
from wiresum.sim.scenario import RowsJob
from wiresum.testbed import Testbed, run_or_fail

PATIENCE_S = 120.0
FIRST_ELEMENTS = 256
"""Elements of a collective before the first round: after it all ranks are there."""
GRADIENT = 2.0**-10
"""Every value of a row's gradient, as native workers have it."""
MTU_BYTES = 1500
"""Packets of rows fit plain Ethernet frames."""


def measure_rows(file: ScenarioFile, rows: RowsJob, load: LoadTopology, engine: EngineName) -> Measured:
    """Plays a scenario's rounds on a testbed; the seconds are those of the slowest worker.

    Args:
        file: the scenario.
        rows: its sparse job.
        load: finds topologies.
        engine: what sums a dense gradient.

    Raises:
        ScenarioError: the plan cannot be made.
        TestbedError: it cannot be run, or a worker failed; the message says why.
    """
    topology = topology_of(file, load)
    planned = planned_rows(file, rows, topology)
    dense = _summed_by(planned.dense, engine) if planned.dense else None
    mtu_bytes = DEFAULT_MTU_BYTES if dense else MTU_BYTES
    with Testbed(topology, dense, mtu_bytes=mtu_bytes, loss_seed=file.scenario.seed) as bed:
        addresses = [f"{bed.address(name)}:{ROWS_PORT + number}" for number, name in enumerate(planned.hosts)]
        job = json.loads(planned.text)
        servers = len(job["servers"])
        job |= {"servers": addresses[:servers], "switches": addresses[servers:]}
        folder = Path(bed.folder)
        for rank in range(len(planned.plan.workers)):
            _touched(folder, rank).write_text(json.dumps(planned.touched(rank)), encoding="utf-8")
        with TableDaemons(bed, json.dumps(job), planned.hosts) as daemons:
            command = [sys.executable, "-m", "wiresum.bench.scenario.rows", str(folder), str(daemons.job_file),
                       str(next_incarnation()), str(rows.dense_bytes // LANE_BYTES)]  # fmt: skip
            traffic = run_or_fail(bed, command, "the live run").traffic
        of_ranks = [json.loads(_answer(folder, rank).read_text()) for rank in range(len(planned.plan.workers))]
        links: dict[Direction, float] = directions(bed.topology, traffic)
    return Measured([max(of_round) for of_round in zip(*of_ranks, strict=True)], links, ())


def _summed_by(plan: AggregationPlan, engine: EngineName) -> AggregationPlan:
    nodes = [node.model_copy(update={"engine": engine}) for node in plan.nodes]
    return plan.model_copy(update={"nodes": nodes})


def _touched(folder: Path, rank: int) -> Path:
    return folder / f"touched-{rank}.json"


def _answer(folder: Path, rank: int) -> Path:
    return folder / f"answer-{rank}.json"


def play(job: str, rank: int, incarnation: int, touched: Sequence[list[list[int]]], elements: int) -> list[float]:
    """Plays a rank's rounds with rows and a dense gradient; the seconds of each.

    Args:
        job: text of the sparse job's file.
        rank: of the worker.
        incarnation: of both parts.
        touched: by round and table, the rows that the worker touches.
        elements: of the dense gradient.
    """
    from wiresum._native import Engine
    from wiresum.sparse.client import SparseClient

    tables = [(table["name"], table["dim"]) for table in json.loads(job)["tables"]]
    plan = AggregationPlan.read(os.environ["WIRESUM_PLAN"]).to_json()
    values, seconds = np.zeros(elements, np.float32), []
    with Engine(plan, rank, incarnation) as engine, SparseClient.connect(job, rank, incarnation=incarnation) as client:
        engine.all_reduce(values[:FIRST_ELEMENTS].data, timeout_s=PATIENCE_S)  # everyone is there
        for now, following in pairwise(touched):
            begun = time.perf_counter()
            for (name, dimension), keys in zip(tables, now, strict=True):
                client.push(name, keys, np.full((len(keys), dimension), GRADIENT, np.float32))
            client.end_round()
            asked = [client.ask(name, keys) for (name, _), keys in zip(tables, following, strict=True)]
            engine.all_reduce(values.data, timeout_s=PATIENCE_S)
            for rows in asked:
                rows.wait()
            seconds.append(time.perf_counter() - begun)
    return seconds


def main(folder: Path, job: Path, incarnation: int, elements: int) -> None:
    """Plays one rank."""
    from wiresum._native import bench_sparse_worker

    rank, text = int(os.environ["RANK"]), job.read_text(encoding="utf-8")
    touched = json.loads(_touched(folder, rank).read_text(encoding="utf-8"))
    if elements:
        seconds = play(text, rank, incarnation, touched, elements)
    else:
        seconds, _ = bench_sparse_worker(text, rank, incarnation, touched)
    _answer(folder, rank).write_text(json.dumps(seconds), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))
