"""The rival `pool`: the gradient of whole tables, zeros included, summed as a dense tensor by the slot policy `pool`.

A part of the tables is summed, and the seconds of all of them follow from its share: windows are full all the time.
Run as a program this is one rank, without PyTorch.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from wiresum.bench.limit import StarTraffic
from wiresum.bench.task import RankTask
from wiresum.errors import TestbedError
from wiresum.plan.aggregation_plan import AggregationPlan
from wiresum.plan.choices import Engine as EngineName
from wiresum.plan.incarnation import next_incarnation
from wiresum.plan.job import Job
from wiresum.plan.options import PlanOptions
from wiresum.plan.tables import Table
from wiresum.planners import plan
from wiresum.testbed import Testbed, run_or_fail
from wiresum.topology.model import Topology

MOST_SUMMED = 1 << 20
"""Values that are summed in a round; some 0.3 s at 100 Mbit/s, where whole tables take 20 s and more."""
FLOAT_BYTES = 4
PATIENCE_S = 120.0
TOLERANCE = 1e-4
"""Relative error of a sum of ones, by block exponents."""


@dataclass(frozen=True)
class Task(RankTask):
    """What a rank sums.

    Attributes:
        incarnation: of the job.
        elements: of each sum.
        rounds: how many.
        folder: for the seconds of each rank.
    """

    incarnation: int
    elements: int
    rounds: int
    folder: str


@dataclass(frozen=True)
class Pooled:
    """What the sums took.

    Attributes:
        seconds: of each round, of all tables.
        bound: seconds of a round that the links allow.
        notes: what was measured, for people.
    """

    seconds: Sequence[float]
    bound: float
    notes: Sequence[str]


def measure_pool(
    topology: Topology, tables: Sequence[Table], engine: EngineName, *, rounds: int, warmups: int
) -> Pooled:
    """Sums a part of the tables' gradient on the links of a topology.

    Args:
        topology: a star.
        tables: what is summed.
        engine: what sums.
        rounds: measured ones.
        warmups: rounds before them.

    Raises:
        TestbedError: a worker failed; the message has the end of its output.
    """
    whole = sum(table.rows * table.dimension for table in tables)
    task = Task(next_incarnation(), min(whole, MOST_SUMMED), warmups + rounds, "")
    job, ranks = Job(policy="pool"), len(topology.workers)
    with Testbed(topology, plan(topology, job, PlanOptions(engine=engine))) as bed:
        task = replace(task, folder=str(bed.folder))
        run_or_fail(bed, task.command(), "pool")
        of_ranks = [json.loads(_answer(task, rank).read_text(encoding="utf-8")) for rank in range(ranks)]
        left_out = bed.left_out
    factor = whole / task.elements
    seconds = [factor * max(one) for one in zip(*of_ranks, strict=True)][warmups:]
    traffic = StarTraffic(whole, ranks, job.packet_values * FLOAT_BYTES, FLOAT_BYTES)
    rate_bps = min(link.bandwidth_bps or float("inf") for link in topology.links)
    note = f"pool: {task.elements:,} of {whole:,} values were summed, and the time multiplied by {factor:.3g}"
    return Pooled(seconds, traffic.seconds(rate_bps), [*left_out, note])


def _answer(task: Task, rank: int) -> Path:
    return Path(task.folder) / f"pool-{rank}.json"


def main(task: Task) -> None:
    """Sums ones.

    Raises:
        TestbedError: a sum is wrong.
    """
    from wiresum._native import Engine

    rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    engine = Engine(AggregationPlan.read(os.environ["WIRESUM_PLAN"]).to_json(), rank, task.incarnation)
    seconds = []
    for _ in range(task.rounds):
        values = np.ones(task.elements, np.float32)
        begun = time.perf_counter()
        engine.all_reduce(values.data, timeout_s=PATIENCE_S)
        seconds.append(time.perf_counter() - begun)
        if not np.allclose(values, ranks, rtol=TOLERANCE):
            raise TestbedError(
                f"rank {rank}: {ranks} ones were summed to {values.min()} to {values.max()}; please report this"
            )
    engine.close()
    _answer(task, rank).write_text(json.dumps(seconds), encoding="utf-8")


if __name__ == "__main__":
    main(Task.told())
