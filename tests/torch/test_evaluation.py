"""A measured round becomes a plan that puts similar workers together."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
import torch.distributed as dist
from world import World

from wiresum.errors import NotWorthwhileError
from wiresum.plan.evaluation import Evaluation
from wiresum.plan.job import Job
from wiresum.plan.options import PlanOptions
from wiresum.planners import plan
from wiresum.topology.generators.star import star
from wiresum.torch.evaluation import CHUNK_ELEMENTS, evaluate_workers

SLEEP_S = 0.3
GRADIENT_BYTES = 4 * (CHUNK_ELEMENTS + 1)
"""Two messages, the second of one value."""


def evaluate(path: str, name: str | None = None) -> Any:
    """Rank 1 computes for longer than the others."""
    rank = dist.get_rank()
    seconds = SLEEP_S if rank == 1 else 0.0
    return evaluate_workers(lambda: time.sleep(seconds), GRADIENT_BYTES, path, name or f"w{rank}").model_dump()


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
    assert computing.index(max(computing)) == 1
    assert computing[1] >= SLEEP_S
    assert all(worker.communication_seconds > 0 for worker in evaluation.workers)


def test_a_round_without_communication_needs_no_plan(tmp_path: Path) -> None:
    path = tmp_path / "evaluation.json"
    with World(1, backend="gloo") as world:
        world.run(evaluate, str(path), "w0")
    with pytest.raises(NotWorthwhileError):
        plan(star(1), Job(), PlanOptions(evaluation=Evaluation.read(path)), planner="xagg")
