"""Sparse all-reduces among other collectives, over an engine that waits and fails when told to, and without one."""

from __future__ import annotations

from datetime import timedelta

import pytest
import torch.distributed as dist
import world
from mock_engine import FAILED, MISSED, UNFORESEEN, Fault, MockEngine
from world import World

import torch
from wiresum import errors
from wiresum.torch import Reason, explain

ROWS, WIDTH = 50, 8


def rows(first: int = 0, size: int = 1000) -> torch.Tensor:
    """As many rows as any, with values that are the rank's number."""
    indices = torch.arange(first, first + ROWS)[None]
    values = torch.full((ROWS, WIDTH), float(dist.get_rank()))
    return torch.sparse_coo_tensor(indices, values, (size, WIDTH), check_invariants=False)


def held_back(key: str) -> None:
    size, rank = dist.get_world_size(), dist.get_rank()
    dist.all_reduce(rows())  # the first one makes a group of Gloo's, for which it waits
    if rank != 0:
        world.store().wait([key])
    before = MockEngine.current.submitted
    sparse, dense = rows(), torch.full((100,), float(rank))
    works = [dist.all_reduce(sparse, async_op=True), dist.all_reduce(dense, async_op=True)]
    if rank == 0:
        assert MockEngine.current.submitted == before  # the others have not told their rows
        assert explain(works[1]) is Reason.PENDING
        with pytest.raises(errors.CollectiveTimeoutError, match="wait again"):
            works[1].wait(timedelta(milliseconds=50))
        world.store().set(key, "go")
    for work in works:
        work.wait()
        assert explain(work) is Reason.SUMMED
    total = float(sum(range(size)))
    assert torch.equal(sparse.values(), torch.full((ROWS, WIDTH), total))
    assert torch.equal(dense, torch.full((100,), total))


def test_what_comes_after_a_sparse_tensor_waits_until_all_ranks_know_its_rows(mocked: World) -> None:
    mocked.run(held_back, "sparse order")


def failing() -> str:
    MockEngine.current.faults = [Fault(FAILED, "the cable is out")]
    tensor = rows(first=dist.get_rank())
    before = tensor.clone()
    work = dist.all_reduce(tensor, async_op=True)
    with pytest.raises(errors.CollectiveError) as caught:
        work.wait()
    assert explain(work) is Reason.FAILED
    assert torch.equal(tensor._indices(), before._indices())
    assert torch.equal(tensor._values(), before._values())
    after = torch.ones(100)
    dist.all_reduce(after)
    assert after[0] == dist.get_world_size()
    return str(caught.value)


def test_a_sum_of_rows_that_fails_leaves_the_tensor_as_it_was(mocked: World) -> None:
    assert all("the cable is out" in message for message in mocked.run(failing))


def otherwise(outcome: int) -> tuple[str, float]:
    MockEngine.current.faults = [Fault(outcome)]
    tensor = rows()
    work = dist.all_reduce(tensor, async_op=True)
    work.wait()
    return explain(work), float(tensor.values().mean())


def test_a_sum_of_rows_says_how_it_ended(mocked: World) -> None:
    total = float(sum(range(mocked.size)))
    assert mocked.run(otherwise, UNFORESEEN) == [(Reason.UNFORESEEN, total)] * mocked.size
    assert [reason for reason, _ in mocked.run(otherwise, MISSED)] == [Reason.MISSED] * mocked.size


def without_network() -> list[str]:
    size, rank = dist.get_world_size(), dist.get_rank()
    group = dist.new_group(backend="wiresum")
    found = []
    for op, factor in (("SUM", 1.0), ("AVG", 1.0 / size)):
        tensor = rows(first=rank)
        work = dist.all_reduce(tensor, op=getattr(dist.ReduceOp, op), group=group, async_op=True)
        work.wait()
        found.append(str(explain(work)))
        expected = torch.zeros(1000, WIDTH)
        for other in range(size):
            expected[other : other + ROWS] += other * factor
        torch.testing.assert_close(tensor.to_dense(), expected)
        assert tensor.is_coalesced()
    with pytest.raises(errors.CollectiveError, match="rank 1: index 50 is outside of dimension 0, whose size is 50"):
        dist.all_reduce(rows(first=int(rank == 1), size=ROWS), group=group)
    dist.destroy_process_group(group)
    return found


def test_a_group_without_the_network_has_the_same_sums_and_errors(mocked: World) -> None:
    for found in mocked.run(without_network):
        assert found == ["no_network", "no_network"]
