"""Inf and NaN come out as Inf and NaN, on every rank, whatever is under way meanwhile."""

from __future__ import annotations

import math

import pytest
import torch.distributed as dist
from world import World

import torch
from wiresum.torch import Reason, explain, report

ELEMENTS = 100


def sum_with(value: float, only_on: int) -> tuple[float, float, str]:
    tensor = torch.ones(ELEMENTS)
    if dist.get_rank() == only_on:
        tensor[3] = value
    work = dist.all_reduce(tensor, async_op=True)
    work.wait()
    return tensor[3].item(), tensor[4].item(), explain(work)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_the_sum_has_ieee_semantics(mocked: World, value: float) -> None:
    for poisoned, healthy, reason in mocked.run(sum_with, value, 1):
        assert poisoned == value or (math.isnan(value) and math.isnan(poisoned))
        assert healthy == mocked.size
        assert reason == Reason.NOT_FINITE


def opposite_infinities() -> float:
    tensor = torch.full((ELEMENTS,), math.inf if dist.get_rank() == 0 else -math.inf)
    dist.all_reduce(tensor)
    return tensor[0].item()


def test_opposite_infinities_make_nan(mocked: World) -> None:
    assert all(map(math.isnan, mocked.run(opposite_infinities)))


def amid_other_collectives() -> None:
    """What is summed again runs at any time, between the user's own collectives, in any order of waiting."""
    size, rank = dist.get_world_size(), dist.get_rank()
    works, checks = [], []
    for n in range(30):
        tensor = torch.full((ELEMENTS,), float(n))
        if n % 3 == rank:
            tensor[0] = math.nan
        works.append(dist.all_reduce(tensor, async_op=True))
        integers = torch.full((ELEMENTS,), n)
        works.append(dist.all_reduce(integers, async_op=True))
        checks.append((tensor, float(n * size), integers, n * size))
    for work in reversed(works):
        work.wait()
    for tensor, expected, integers, integer in checks:
        assert math.isnan(tensor[0].item())
        assert torch.equal(tensor[1:], torch.full((ELEMENTS - 1,), expected))
        assert torch.equal(integers, torch.full((ELEMENTS,), integer))


def test_it_disturbs_no_other_collective(mocked: World) -> None:
    mocked.run(amid_other_collectives)


def in_odd_layouts() -> None:
    matrix = torch.ones(10, 10)
    matrix[0, 0] = math.nan
    dist.all_reduce(matrix[:, ::2])
    assert math.isnan(matrix[0, 0].item())
    assert torch.equal(matrix[1, ::2], torch.full((5,), float(dist.get_world_size())))
    tensors = [torch.ones(5), torch.full((5,), math.inf)]
    dist.all_reduce_coalesced(tensors, op=dist.ReduceOp.SUM)
    assert torch.equal(tensors[0], torch.full((5,), float(dist.get_world_size())))
    assert torch.equal(tensors[1], torch.full((5,), math.inf))


def test_in_any_layout(mocked: World) -> None:
    mocked.run(in_odd_layouts)


def nested_in_a_callback() -> None:
    nan = torch.full((ELEMENTS,), math.nan)
    again = (
        dist.all_reduce(nan, async_op=True)
        .get_future()
        .then(lambda f: dist.all_reduce(f.value()[0], async_op=True).get_future().wait()[0])
    )
    assert math.isnan(again.wait()[0].item())


def test_a_callback_may_wait_for_another_one(mocked: World) -> None:
    mocked.run(nested_in_a_callback)


def counted() -> int:
    group = report().groups[0]
    before = group.delegated().get(Reason.NOT_FINITE, 0)
    dist.all_reduce(torch.full((ELEMENTS,), math.nan))
    return report().groups[0].delegated()[Reason.NOT_FINITE] - before


def test_the_report_counts_it(mocked: World) -> None:
    assert mocked.run(counted) == [1] * mocked.size
