"""A measured round becomes a plan that puts similar workers together."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
import torch.distributed as dist
from world import World

from wiresum.errors import NotWorthwhileError
from wiresum.plan.evaluation import Evaluation
from wiresum.plan.job import Job
from wiresum.plan.options import PlanOptions
from wiresum.planners import plan
from wiresum.topology.generators.star import star
from wiresum.torch import evaluation as module
from wiresum.torch.evaluation import CHUNK_ELEMENTS, evaluate_workers

COMPUTING_S = 0.3
READING_S = 1e-6
GRADIENT_BYTES = 4 * (CHUNK_ELEMENTS + 1)
"""Two messages, the second of one value."""


class Clock:
    """A clock that stands still but where something takes time, as its reading does."""

    def __init__(self) -> None:
        self.now = 0.0

    def perf_counter(self) -> float:
        self.now += READING_S
        return self.now


def evaluate(path: str, name: str | None = None) -> Any:
    """Rank 1 computes for longer than the others."""
    rank, clock = dist.get_rank(), Clock()

    def step() -> None:
        clock.now += COMPUTING_S if rank == 1 else 0.0

    with patch.object(module, "time", clock):
        return evaluate_workers(step, GRADIENT_BYTES, path, name or f"w{rank}").model_dump()


@pytest.mark.parametrize("size", [1, 3])
def test_every_rank_gets_the_same_evaluation_and_the_first_writes_it(size: int, tmp_path: Path) -> None:
    path = tmp_path / "evaluation.json"
    with World(size, backend="gloo") as world:
        found = world.run(evaluate, str(path))
        if size > 1:
            clash = world.try_to_run(evaluate, str(path), "twin")
            assert [failure.kind for failure in clash] == ["PlanError"] * size
    assert found.count(found[0]) == size
    evaluation = Evaluation.read(path)
    assert evaluation.model_dump() == found[0]
    assert [worker.name for worker in evaluation.workers] == [f"w{rank}" for rank in range(size)]
    if size == 1:
        assert evaluation.workers[0].communication_seconds == 0
        return
    computing = [worker.compute_seconds for worker in evaluation.workers]
    assert computing == pytest.approx([READING_S, COMPUTING_S + READING_S, READING_S])
    assert all(worker.communication_seconds > 0 for worker in evaluation.workers)


def test_a_round_without_communication_needs_no_plan(tmp_path: Path) -> None:
    path = tmp_path / "evaluation.json"
    with World(1, backend="gloo") as world:
        world.run(evaluate, str(path), "w0")
    with pytest.raises(NotWorthwhileError):
        plan(star(1), Job(), PlanOptions(evaluation=Evaluation.read(path)), planner="xagg")
