"""Ranks that leave without being killed: who waits for one of them is told at once, and nobody else notices.

The group's timeout is far beyond what a test may take, and another error.
"""

from __future__ import annotations

import atexit
import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch.distributed as dist
from aggregator import aggregator
from torch.distributed.algorithms.join import Join
from torch.nn.parallel import DistributedDataParallel
from world import Failure, World

import torch
from wiresum.deploy.deployment import Deployment
from wiresum.errors import CollectiveError, WorkerLostError
from wiresum.plan.job import Job

TIMEOUT_S = 120.0
WAYS = ("exit", "destroy", "terminate", "abrupt")
"""Ways to leave: as an interpreter ends, by `destroy_process_group`, by SIGTERM, by `os._exit`."""


def settings(node: Deployment, **more: str) -> dict[str, str]:
    return {"WIRESUM_PLAN": str(node.plan_file), "WIRESUM_MIN_ELEMENTS": "1", **more}


@pytest.fixture(params=["udp", "tcp"])
def node(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Deployment]:
    with aggregator(tmp_path, 3, Job(values_per_packet=256, copies=True), engine=request.param) as running:
        yield running


def end_by(way: str, group: dist.ProcessGroup | None = None) -> None:
    if way == "destroy":
        dist.destroy_process_group(group)
    elif way == "terminate":
        os.kill(os.getpid(), signal.SIGTERM)
    elif way == "exit":
        atexit._run_exitfuncs()  # what an exception, sys.exit() and the end of a script come to
        os._exit(0)
    else:
        os._exit(0)


def sum_of_ones(kind: torch.dtype = torch.float32) -> float:
    tensor = torch.ones(5000, dtype=kind)
    dist.all_reduce(tensor)
    return float(tensor[0])


def errors_of_what_waits() -> list[str]:
    """Errors of collectives in flight and of a later one, some of which Gloo carries."""
    many = torch.ones(5000, dtype=torch.float64)
    works = [
        dist.all_reduce(torch.ones(5000), async_op=True),
        dist.all_reduce(many.clone(), async_op=True),
        dist.barrier(async_op=True),
        dist.all_gather_into_tensor(torch.empty(15_000, dtype=torch.float64), many, async_op=True),
    ]
    said = []
    for work in works:
        with pytest.raises(WorkerLostError) as caught:
            work.wait()
        said.append(str(caught.value))
    with pytest.raises(WorkerLostError) as caught:
        dist.all_reduce(torch.ones(5000))
    return [*said, str(caught.value)]


def check(said: list[str], number: int) -> None:
    for message in said:
        assert re.search(rf"rank 1 left the job before collective {number} ", message), message
        assert "longer timeout" not in message


def test_tells_who_waits_for_a_rank_that_leaves(node: Deployment) -> None:
    with World(3, settings(node), timeout_s=TIMEOUT_S) as world:
        world.run(sum_of_ones)
        world.run(sum_of_ones, torch.float64)
        world.try_to_run(end_by, "exit", ranks=[1])
        for said in world.run(errors_of_what_waits, ranks=[0, 2]):
            check(said, 2)


def in_pairs(way_of: dict[int, str]) -> list[str]:
    """Rank 0 has a group of Gloo with each other rank, which leaves in its own way; what rank 0 is told."""
    groups = {rank: dist.new_group([0, rank]) for rank in way_of}
    own = dist.get_rank()
    if own:
        dist.all_reduce(torch.ones(9), group=groups[own])
        end_by(way_of[own], groups[own])
        return []
    said = []
    for group in groups.values():
        dist.all_reduce(torch.ones(9), group=group)
        with pytest.raises(WorkerLostError) as caught:
            dist.all_reduce(torch.ones(9), group=group)
        said.append(str(caught.value))
    return said


def test_tells_of_each_way_to_leave_a_group_of_gloo() -> None:
    way_of = dict(enumerate(WAYS, 1))
    with World(1 + len(WAYS), timeout_s=TIMEOUT_S) as world:
        said = world.try_to_run(in_pairs, way_of)[0]
    assert not isinstance(said, Failure), said.trace
    assert len(said) == len(WAYS)
    for message in said:
        assert "rank 1 left the job before collective 1 (all_reduce)" in message


def go_on() -> float:
    """The mean of the ranks' numbers, once the network sums again."""
    tensor = torch.full((5000,), float(dist.get_rank()))
    dist.all_reduce(tensor, dist.ReduceOp.AVG)
    return float(tensor[0])


def test_the_others_go_on_without_a_rank_that_leaves(tmp_path: Path) -> None:
    with (
        aggregator(tmp_path, 3) as node,
        World(3, settings(node, WIRESUM_ON_LOSS="continue"), timeout_s=TIMEOUT_S) as world,
    ):
        assert world.run(go_on) == [1.0] * 3
        world.run(end_by, "destroy", ranks=[1])
        for _ in range(3):
            assert world.run(go_on, ranks=[0, 2]) == [1.0] * 2


def train_unevenly() -> int:
    """Ranks have 2, 3 and 4 batches; what the optimizer has done is the same on all ranks in the end."""
    model = DistributedDataParallel(torch.nn.Linear(20, 20))
    steps = 2 + dist.get_rank()
    with Join([model]):
        for _ in range(steps):
            model(torch.ones(1, 20)).sum().backward()
    dist.barrier()
    return steps


def root_of_a_broadcast() -> float:
    """Ranks 1 and 2 end after the broadcast; rank 0 comes last, and needs nobody afterwards."""
    tensor = torch.full((9,), float(dist.get_rank()))
    dist.broadcast(tensor, 2)
    return float(tensor[0])


def test_a_rank_that_needs_nobody_goes_on(tmp_path: Path) -> None:
    with aggregator(tmp_path, 3) as node, World(3, settings(node), timeout_s=TIMEOUT_S) as world:
        assert world.run(train_unevenly) == [2, 3, 4]
        assert world.run(root_of_a_broadcast) == [2.0] * 3
        world.run(end_by, "destroy", ranks=[1])
        world.run(end_by, "destroy", ranks=[2])
        assert world.run(errors_so_far, ranks=[0]) == [[]]
        world.run(end_by, "destroy", ranks=[0])


def errors_so_far() -> list[str]:
    from wiresum.torch import report

    return list(report().groups[0].errors)


def fail_in_a_monitored_barrier() -> None:
    from datetime import timedelta

    with pytest.raises(RuntimeError):
        dist.monitored_barrier(timeout=timedelta(seconds=1))


def try_both() -> tuple[float, str]:
    """A sum in the network, and the error of one by Gloo."""
    with pytest.raises(RuntimeError) as caught:
        sum_of_ones(torch.float64)
    assert not isinstance(caught.value, CollectiveError)
    return sum_of_ones(), str(caught.value)


def test_gloo_fails_at_once_after_a_failed_monitored_barrier(tmp_path: Path) -> None:
    """As plain Gloo: its connections are closed. What the network sums goes on."""
    with aggregator(tmp_path, 4) as node, World(4, settings(node), timeout_s=TIMEOUT_S) as world:
        world.run(fail_in_a_monitored_barrier, ranks=[0, 1, 3])
        world.run(fail_in_a_monitored_barrier, ranks=[2])
        for _ in range(2):
            assert {total for total, _ in world.run(try_both)} == {4.0}
