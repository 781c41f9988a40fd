"""A rank of `wiresum bench security --switched`: it joins with all others at once, and sums alone and beside floods."""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wiresum import _native
from wiresum.bench.security.load import sum_until
from wiresum.bench.security.sums import PATIENCE_S, answer, timed
from wiresum.bench.task import RankTask
from wiresum.plan.aggregation_plan import AggregationPlan

BEGIN_GRACE_S = 5.0
"""Until all ranks' processes have been started."""
HEAD_START_S = 2.0
"""A flood's process has to start before the sums beside it; it goes on as long after them."""
PAUSE_S = 1.0
"""Until all have left the run before."""


@dataclass(frozen=True)
class Task(RankTask):
    """What to join and sum, how often, and where rank 0 writes what it has measured."""

    plan: str
    begin_at: float
    elements: int
    runs: int
    seconds: float
    floods: list[str]
    output: str


def measure(task: Task, rank: int, ranks: int) -> dict[str, Any]:
    """Seconds of joining and of sums, processor time of sums, and sums per second alone and beside each flood."""
    text = AggregationPlan.read(Path(task.plan)).to_json()
    joins: list[float] = []
    incarnation, begin_at = int(task.begin_at * 1e6), task.begin_at
    while True:
        time.sleep(max(begin_at - time.time(), 0.0))
        began = time.perf_counter()
        engine = _native.Engine(text, rank, incarnation + len(joins), PATIENCE_S)
        joins.append(time.perf_counter() - began)
        if len(joins) == task.runs:
            break
        begin_at = task.begin_at + agreed(engine, rank, time.time() + PAUSE_S - task.begin_at)
        engine.close()
    with engine:
        measured: dict[str, Any] = {"joins": slowest(engine, joins, rank, ranks), **sums(engine, task, rank, ranks)}
        measured["rates"] = {flood: [] for flood in task.floods}
        for _ in range(task.runs):
            for flood in task.floods:
                measured["rates"][flood].append(rate(engine, flood, task.seconds, rank))
    return measured


def agreed(engine: _native.Engine, rank: int, seconds: float) -> float:
    """What rank 0 says, once all are here."""
    said = np.full(1, 0.0 if rank else seconds, dtype=np.float32)
    engine.all_reduce(said.data, timeout_s=PATIENCE_S)
    return float(said[0])


def slowest(engine: _native.Engine, seconds: list[float], rank: int, ranks: int) -> list[float]:
    """The largest of all ranks' numbers, run by run."""
    table: NDArray[np.float32] = np.zeros((ranks, len(seconds)), dtype=np.float32)
    table[rank] = seconds
    engine.all_reduce(table.data, timeout_s=PATIENCE_S)
    return [float(longest) for longest in table.max(axis=0)]


def sums(engine: _native.Engine, task: Task, rank: int, ranks: int) -> dict[str, list[float]]:
    """Seconds, and seconds of processor time of the rank's engine, of each sum."""
    measured: dict[str, list[float]] = {"seconds": [], "cpu": []}
    array = np.empty(task.elements, dtype=np.float32)
    # The first touches memory, and is not counted.
    for run in range(1 + task.runs):
        seconds, cpu = timed(engine, array, rank, ranks)
        if run > 0:
            measured["seconds"].append(seconds)
            measured["cpu"].append(cpu)
    return measured


def rate(engine: _native.Engine, flood: str, seconds: float, rank: int) -> float:
    """Sums per second; rank 0 says when the flood is to begin."""
    if rank == 0:
        print(f"beside {flood}", flush=True)
        time.sleep(HEAD_START_S)
    engine.all_reduce(np.ones(1, dtype=np.float32).data, timeout_s=PATIENCE_S)
    began = time.perf_counter()
    count = sum_until(engine, began + seconds)
    return count / (time.perf_counter() - began)


if __name__ == "__main__":
    told = Task.told()
    answer(told.output, partial(measure, told))
