"""Ranks whose processes die, stop, compute or leave: whom the others name, and that it is not the timeout which tells.

The group's timeout is far beyond `WIRESUM_DEAD_AFTER`, and another error.
"""

from __future__ import annotations

import ctypes
import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch.distributed as dist
from aggregator import aggregator
from world import DEFAULT_GROUP_TIMEOUT_S, Failure, World, create_group

import torch
from wiresum.deploy.deployment import Deployment
from wiresum.errors import CollectiveTimeoutError, WorkerLostError
from wiresum.plan.job import Job
from wiresum.torch import report

WHILE_OPEN_S = 0.5
"""Seconds after which a rank is killed for whom the others wait."""
LONGER_THAN_DEAD_AFTER_S = 3.0
LEFT_TIMEOUT_S = 4.0


@pytest.fixture(params=[("udp", 1), ("udp", 2), ("tcp", 1)], ids=["udp", "udp-2-threads", "tcp"])
def node(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Deployment]:
    engine, threads = request.param
    with aggregator(tmp_path, 3, Job(values_per_packet=352, threads=threads), engine=engine) as running:
        yield running


def three(node: Deployment, timeout_s: float = DEFAULT_GROUP_TIMEOUT_S) -> World:
    environment = {"WIRESUM_PLAN": str(node.plan_file), "WIRESUM_MIN_ELEMENTS": "1", "WIRESUM_DEAD_AFTER": "1"}
    return World(3, environment, timeout_s=timeout_s)


def sum_of_ones() -> float:
    tensor = torch.ones(5000)
    dist.all_reduce(tensor)
    return float(tensor[0])


def test_survivors_name_a_rank_that_was_killed_in_the_next_collective_and_every_later_one(node: Deployment) -> None:
    with three(node) as world:
        assert world.run(sum_of_ones) == [3.0] * 3
        world.processes[1].kill()
        for _ in range(2):
            for failure in world.try_to_run(sum_of_ones, ranks=[0, 2]):
                assert isinstance(failure, Failure)
                assert failure.kind == "WorkerLostError"
                assert "worker w1 (rank 1" in failure.message
                assert node.plan.nodes[0].name in failure.message


def caught_while_open() -> tuple[bool, list[float]]:
    """Whether the tensor is as it was after the error, which is the one that is meant."""
    tensor = torch.full((5000,), float(1 + dist.get_rank()))
    with pytest.raises(WorkerLostError, match=r"worker w1 \(rank 1") as caught:
        dist.all_reduce(tensor)
    return isinstance(caught.value, CollectiveTimeoutError), sorted(set(tensor.tolist()))


def test_an_open_collective_names_it_and_leaves_tensors_as_they_were(node: Deployment) -> None:
    with three(node) as world:
        assert world.run(sum_of_ones) == [3.0] * 3
        threading.Timer(WHILE_OPEN_S, world.processes[1].kill).start()
        assert world.run(caught_while_open, ranks=[0, 2]) == [(True, [1.0]), (True, [3.0])]


def test_a_stopped_rank_is_named_and_told_when_it_goes_on(node: Deployment) -> None:
    with three(node) as world:
        assert world.run(sum_of_ones) == [3.0] * 3
        stopped = world.processes[1].pid
        assert stopped is not None
        os.kill(stopped, signal.SIGSTOP)
        survivors = world.try_to_run(sum_of_ones, ranks=[0, 2])
        os.kill(stopped, signal.SIGCONT)
        (own,) = world.try_to_run(sum_of_ones, ranks=[1])
        for failure in (*survivors, own):
            assert isinstance(failure, Failure)
            assert failure.kind == "WorkerLostError"
        assert "has taken this worker (w1, rank 1) for dead" in own.message


def gather_by_gloo() -> None:
    """Elements of a type, and so many, that Gloo has them."""
    mine = torch.ones(5000, dtype=torch.float64)
    dist.all_gather_into_tensor(torch.empty(15_000, dtype=torch.float64), mine)


@pytest.mark.parametrize("number", [signal.SIGSTOP, signal.SIGKILL], ids=["stopped", "killed"])
def test_what_gloo_has_names_it_too(node: Deployment, number: signal.Signals) -> None:
    """Gloo waits for a stopped process until the timeout, and says of a killed one that a connection was reset."""
    with three(node) as world:
        world.run(sum_of_ones)
        world.run(gather_by_gloo)
        lost = world.processes[1].pid
        assert lost is not None
        threading.Timer(WHILE_OPEN_S, os.kill, (lost, number)).start()
        for _ in range(2):
            for failure in world.try_to_run(gather_by_gloo, ranks=[0, 2]):
                assert isinstance(failure, Failure)
                assert failure.kind == "WorkerLostError", failure.trace
                assert "all_gather_single through Gloo: worker w1 (rank 1" in failure.message
        world.processes[1].kill()


def compute() -> float:
    """Nobody else gets Python's lock meanwhile."""
    if dist.get_rank() == 1:
        ctypes.PyDLL(None).usleep(int(LONGER_THAN_DEAD_AFTER_S * 1e6))
    return sum_of_ones()


def heartbeats() -> int:
    return int(report().groups[0].engine["heartbeats"])


def test_a_rank_that_computes_is_not_dead(node: Deployment) -> None:
    with three(node) as world:
        assert world.run(compute) == [3.0] * 3
        assert all(count > 10 for count in world.run(heartbeats))


def leave() -> None:
    dist.destroy_process_group()


def start_again() -> None:
    dist.destroy_process_group()
    create_group()


def wait_and_sum(wait_s: float) -> float:
    threading.Event().wait(wait_s)
    return sum_of_ones()


def test_a_rank_that_has_left_is_not_lost(node: Deployment) -> None:
    with three(node, LEFT_TIMEOUT_S) as world:
        world.run(leave, ranks=[1])
        for failure in world.try_to_run(wait_and_sum, LONGER_THAN_DEAD_AFTER_S, ranks=[0, 2]):
            assert isinstance(failure, Failure)
            assert failure.kind == "CollectiveTimeoutError"


def test_a_new_group_knows_nothing_of_the_lost_one(node: Deployment) -> None:
    with three(node) as world:
        stopped = world.processes[1].pid
        assert stopped is not None
        os.kill(stopped, signal.SIGSTOP)
        assert all(isinstance(failure, Failure) for failure in world.try_to_run(sum_of_ones, ranks=[0, 2]))
        os.kill(stopped, signal.SIGCONT)
        world.run(start_again)
        assert world.run(compute) == [3.0] * 3
