"""A rank of `wiresum bench security --sealed`: the same sums in the open and sealed, in turns, each timed."""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from wiresum import _native
from wiresum.bench.task import RankTask
from wiresum.plan.aggregation_plan import AggregationPlan

PATIENCE_S = 120.0
"""For a sum on a busy machine."""
INCARNATION = 1
"""Every job is new."""


@dataclass(frozen=True)
class Task(RankTask):
    """What to sum, how often, and where rank 0 writes what it has measured."""

    plans: dict[str, str]
    elements: int
    runs: int
    output: str


def measure(task: Task, rank: int, ranks: int) -> dict[str, dict[str, list[float]]]:
    """Seconds, and seconds of processor time of the rank's engine, of each sum."""
    with contextlib.ExitStack() as joined:
        texts = {name: AggregationPlan.read(Path(file)).to_json() for name, file in task.plans.items()}
        engines = {
            name: joined.enter_context(_native.Engine(text, rank, INCARNATION, PATIENCE_S))
            for name, text in texts.items()
        }
        measured: dict[str, dict[str, list[float]]] = {name: {"seconds": [], "cpu": []} for name in engines}
        array = np.empty(task.elements, dtype=np.float32)
        # The first of each touches memory, and is not counted.
        for run in range(1 + task.runs):
            for name, engine in engines.items():
                seconds, cpu = timed(engine, array, rank, ranks)
                if run > 0:
                    measured[name]["seconds"].append(seconds)
                    measured[name]["cpu"].append(cpu)
    return measured


def timed(engine: _native.Engine, array: NDArray[np.float32], rank: int, ranks: int) -> tuple[float, float]:
    """Seconds, and seconds of processor time of the rank's engine, of a sum that all ranks begin together."""
    array[:] = rank + 1
    engine.all_reduce(np.ones(1, dtype=np.float32).data, timeout_s=PATIENCE_S)  # all are here
    before, began = engine.statistics()["cpu_seconds"], time.perf_counter()
    engine.all_reduce(array.data, timeout_s=PATIENCE_S)
    seconds, cpu = time.perf_counter() - began, engine.statistics()["cpu_seconds"] - before
    if not (array == ranks * (ranks + 1) / 2).all():
        raise SystemExit(f"rank {rank}: the sum is wrong; please report this")
    return seconds, cpu


def answer(output: str, measured: Callable[[int, int], object]) -> None:
    """Measures as this rank of so many; rank 0 writes what came of it."""
    rank = int(os.environ["RANK"])
    found = measured(rank, int(os.environ["WORLD_SIZE"]))
    if rank == 0:
        Path(output).write_text(json.dumps(found))


if __name__ == "__main__":
    told = Task.told()
    answer(told.output, partial(measure, told))
