"""The live answer to a scenario with rows: servers of tables and switches as daemons, native workers that replay."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

from wiresum.bench.scenario.measured import Direction, Measured, directions
from wiresum.deploy.tables import TableDaemons
from wiresum.plan.rows import ROWS_PORT
from wiresum.sim import ScenarioFile
from wiresum.sim.resolve import LoadTopology, topology_of
from wiresum.sim.rows import planned_rows
from wiresum.sim.scenario import RowsJob
from wiresum.testbed import Testbed, run_or_fail

MTU_BYTES = 1500
"""Packets of rows fit plain Ethernet frames."""


def measure_rows(file: ScenarioFile, rows: RowsJob, load: LoadTopology) -> Measured:
    """Plays a scenario's rounds on a testbed; the seconds are those of the slowest worker.

    Raises:
        ScenarioError: the plan cannot be made.
        TestbedError: it cannot be run, or a worker failed; the message says why.
    """
    topology = topology_of(file, load)
    planned = planned_rows(file, rows, topology)
    with Testbed(topology, mtu_bytes=MTU_BYTES, loss_seed=file.scenario.seed) as bed:
        addresses = [f"{bed.address(name)}:{ROWS_PORT + number}" for number, name in enumerate(planned.hosts)]
        job = json.loads(planned.text)
        servers = len(job["servers"])
        job |= {"servers": addresses[:servers], "switches": addresses[servers:]}
        folder = Path(bed.folder)
        for rank in range(len(planned.plan.workers)):
            _touched(folder, rank).write_text(json.dumps(planned.touched(rank)), encoding="utf-8")
        with TableDaemons(bed, json.dumps(job), planned.hosts) as daemons:
            command = [sys.executable, "-m", "wiresum.bench.scenario.rows", str(folder), str(daemons.job_file),
                       str(time.time_ns() // 1000)]  # fmt: skip
            traffic = run_or_fail(bed, command, "the live run").traffic
        of_ranks = [json.loads(_answer(folder, rank).read_text()) for rank in range(len(planned.plan.workers))]
        links: dict[Direction, float] = directions(bed.topology, traffic)
    return Measured([max(of_round) for of_round in zip(*of_ranks, strict=True)], links, ())


def _touched(folder: Path, rank: int) -> Path:
    return folder / f"touched-{rank}.json"


def _answer(folder: Path, rank: int) -> Path:
    return folder / f"answer-{rank}.json"


def main(folder: Path, job: Path, incarnation: int) -> None:
    """Plays one rank."""
    from wiresum._native import bench_sparse_worker

    rank = int(os.environ["RANK"])
    touched = json.loads(_touched(folder, rank).read_text(encoding="utf-8"))
    seconds, _ = bench_sparse_worker(job.read_text(encoding="utf-8"), rank, incarnation, touched)
    _answer(folder, rank).write_text(json.dumps(seconds), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]))
