"""Groups whose members come, go and change places: `reconfigure`, `shrink`, fewer ranks than the plan has workers."""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
import torch.distributed as dist
from aggregator import aggregator
from torch._C._distributed_c10d import ReconfigureOptions
from torch.distributed.distributed_c10d import ProcessGroup
from world import Failure, World, create_group

import torch
from wiresum.deploy.deployment import Deployment
from wiresum.plan.job import Job
from wiresum.torch import eight_bits, explain, report

SEATS = 4
ELEMENTS = 6000
"""Divisible by every size of a group."""


@pytest.fixture(params=["udp", "tcp"])
def node(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Deployment]:
    with aggregator(tmp_path, SEATS, Job(values_per_packet=352, copies=True), engine=request.param) as running:
        yield running


def four(node: Deployment, **settings: str) -> World:
    environment = {"WIRESUM_PLAN": str(node.plan_file), "WIRESUM_DEAD_AFTER": "1"}
    return World(SEATS, environment | settings, create_group=False)


def begin() -> str:
    """A process without members yet; its handle."""
    create_group(enable_reconfigure=True)
    return group().get_reconfigure_handle()


def group() -> ProcessGroup:
    world = dist.group.WORLD
    assert world is not None
    return world


def meet(uuid: int, handles: list[str]) -> tuple[int, int]:
    options = ReconfigureOptions()
    options.uuid, options.handles, options.timeout = uuid, handles, timedelta(seconds=20)
    group().reconfigure(options).wait()
    return group().rank(), group().size()


def everything() -> set[str]:
    """Collectives of every kind, in and out of what the network carries; where they went."""
    rank, size = group().rank(), group().size()
    gone = []
    for elements in (ELEMENTS, 24):
        whole = torch.arange(float(elements))
        total = whole * (rank + 1)
        gone.append(dist.all_reduce(total, async_op=True))
        gone[-1].wait()
        torch.testing.assert_close(total, whole * (size * (size + 1) / 2))
        mean = whole * (rank + 1)
        dist.all_reduce(mean, dist.ReduceOp.AVG)
        torch.testing.assert_close(mean, whole * ((size + 1) / 2))
        part = torch.empty(elements // size)
        gone.append(dist.reduce_scatter_tensor(part, whole * (rank + 1), async_op=True))
        gone[-1].wait()
        own = whole[rank * part.numel() : (rank + 1) * part.numel()]
        torch.testing.assert_close(part, own * (size * (size + 1) / 2))
        gathered = torch.empty(elements * size)
        gone.append(dist.all_gather_into_tensor(gathered, torch.full((elements,), float(rank)), async_op=True))
        gone[-1].wait()
        assert torch.equal(gathered, torch.arange(float(size)).repeat_interleave(elements))
        copy = torch.full((elements,), float(rank))
        gone.append(dist.broadcast(copy, size - 1, async_op=True))
        gone[-1].wait()
        assert torch.equal(copy, torch.full_like(copy, float(size - 1)))
        reduced = whole * (rank + 1)
        gone.append(dist.reduce(reduced, size - 1, async_op=True))
        gone[-1].wait()
        if rank == size - 1:
            torch.testing.assert_close(reduced, whole * (size * (size + 1) / 2))
    third = torch.full((ELEMENTS,), 1 / 3)
    short, kept = third.clone(), torch.zeros_like(third)
    gone.append(eight_bits.all_reduce(short, dist.ReduceOp.AVG, kept=kept, async_op=True))
    gone[-1].wait()
    torch.testing.assert_close(short + kept, third)
    assert 0.001 < kept.abs().max() < 0.1, "what 8 bits leave"
    counted = torch.tensor([rank, 1])
    dist.all_reduce(counted, dist.ReduceOp.MAX)
    assert counted.tolist() == [size - 1, 1]
    dist.barrier()
    return {str(explain(work)) for work in gone}


IN_THE_NETWORK = {"summed", "copied", "shared"}


def test_members_come_and_go_and_change_places(node: Deployment) -> None:
    with four(node) as world:
        handles = world.run(begin)
        for uuid, seats in enumerate([[0, 1, 2], [0, 1, 2, 3], [3, 1], [2, 3, 0]]):
            chosen = [handles[seat] for seat in seats]
            places = world.run(meet, uuid, chosen, ranks=seats)
            assert places == [(rank, len(seats)) for rank in range(len(seats))]
            assert world.run(everything, ranks=seats) == [IN_THE_NETWORK] * len(seats)


def total(elements: int = ELEMENTS) -> float:
    tensor = torch.full((elements,), group().rank() + 1.0)
    dist.all_reduce(tensor)
    return float(tensor[0])


def test_a_member_is_lost_and_another_takes_its_place(node: Deployment) -> None:
    with four(node) as world:
        handles = world.run(begin)
        world.run(meet, 1, handles[:3], ranks=[0, 1, 2])
        assert world.run(total, ranks=[0, 1, 2]) == [6.0] * 3
        world.processes[1].kill()
        failures = world.try_to_run(total, ranks=[0, 2])
        assert all(isinstance(failure, Failure) and failure.kind == "WorkerLostError" for failure in failures)
        assert all("rank 1" in failure.message for failure in failures)
        world.run(meet, 2, [handles[2], handles[0]], ranks=[2, 0])
        assert world.run(everything, ranks=[2, 0]) == [IN_THE_NETWORK] * 2
        world.run(meet, 3, [handles[2], handles[0], handles[3]], ranks=[2, 0, 3])
        assert world.run(everything, ranks=[2, 0, 3]) == [IN_THE_NETWORK] * 3


def test_who_is_no_member_any_more_gets_an_error(node: Deployment) -> None:
    with four(node) as world:
        handles = world.run(begin)
        world.run(meet, 1, handles[:3], ranks=[0, 1, 2])
        world.run(total, ranks=[0, 1, 2])
        world.run(meet, 2, handles[:2], ranks=[0, 1])
        [failure] = world.try_to_run(total, ranks=[2])
        assert isinstance(failure, Failure), "sums of a group that is no more are nobody's"
        assert world.run(everything, ranks=[0, 1]) == [IN_THE_NETWORK] * 2


def in_any_order(uuid: int, handles: list[str]) -> int:
    options = ReconfigureOptions()
    options.uuid, options.handles = uuid, set(handles)
    group().reconfigure(options).wait()
    return group().rank()


def test_members_without_an_order_agree_on_one(node: Deployment) -> None:
    with four(node) as world:
        handles = world.run(begin, ranks=[0, 1, 2])
        assert sorted(world.run(in_any_order, 1, handles, ranks=[0, 1, 2])) == [0, 1, 2]
        assert world.run(total, ranks=[0, 1, 2]) == [6.0] * 3


def test_a_process_that_is_no_member_or_has_none_is_told(node: Deployment) -> None:
    with four(node) as world:
        handles = world.run(begin, ranks=[0, 1])
        [failure] = world.try_to_run(total, ranks=[0])
        assert "call reconfigure() with their handles first" in failure.message
        [failure] = world.try_to_run(meet, 1, handles[:1], ranks=[1])
        assert "none of the 1 that it was given" in failure.message
        world.run(meet, 2, handles[:1], ranks=[0])
        [failure] = world.try_to_run(meet, 2, handles[:1], ranks=[0])
        assert "was given the uuid 2 before" in failure.message


def create() -> None:
    create_group()


def test_a_group_shrinks(node: Deployment) -> None:
    with four(node) as world:
        world.run(create)
        assert world.run(total) == [10.0] * SEATS
        left = list(range(SEATS - 1))
        world.processes[SEATS - 1].kill()
        failures = world.try_to_run(total, ranks=left)
        assert all(isinstance(failure, Failure) and failure.kind == "WorkerLostError" for failure in failures)
        results = world.run(shrink_to_three, ranks=left)
        assert results == [IN_THE_NETWORK] * len(left)
        left = left[:-1]
        assert world.run(shrink_to_two, ranks=left) == [IN_THE_NETWORK] * len(left)


def shrink_to_three() -> set[str]:
    dist.shrink_group([3])
    return everything()


def shrink_to_two() -> set[str]:
    dist.shrink_group([2])
    return everything()


def with_seats(seats: list[str], only: int) -> str:
    """Groups of the first ranks of the world, whose seats are these."""
    rank = int(os.environ["WIRESUM_TEST_RANK"])
    os.environ["WIRESUM_SEAT"] = seats[rank]
    from world import store

    dist.init_process_group(
        "wiresum", store=dist.PrefixStore("-".join(seats), store()), rank=rank, world_size=only,
        timeout=timedelta(seconds=30),
    )  # fmt: skip
    try:
        return f"{total()} {report().groups[-1].no_network}"
    finally:
        dist.destroy_process_group()


def number_ranks(rank: int) -> None:
    os.environ["WIRESUM_TEST_RANK"] = str(rank)


def test_a_group_of_fewer_ranks_than_workers(node: Deployment) -> None:
    with four(node) as world:
        for rank in range(SEATS):
            world.run(number_ranks, rank, ranks=[rank])
        assert world.run(with_seats, ["3", "0"], 2, ranks=[0, 1]) == ["3.0 "] * 2
        assert world.run(with_seats, ["2", "0", "3", "1"], 4) == ["10.0 "] * 4
        failures = world.try_to_run(with_seats, ["2", "2", "0"], 3, ranks=[0, 1, 2])
        assert all("several ranks have the same WIRESUM_SEAT (2 on ranks 0, 1)" in one.message for one in failures)
        failures = world.try_to_run(with_seats, ["4", "0"], 2, ranks=[0, 1])
        assert all("WIRESUM_SEAT is 4, and the plan has the workers 0 to 3" in one.message for one in failures)
        failures = world.try_to_run(with_seats, ["", "0"], 2, ranks=[0, 1])
        assert all("WIRESUM_SEAT is set on other ranks, but not on rank 0" in one.message for one in failures)
