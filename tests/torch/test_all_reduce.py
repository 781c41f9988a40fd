"""All-reduces that the network takes: results, handles, order, memory."""

from __future__ import annotations

import pytest
import torch.distributed as dist
from world import World

import torch
from wiresum.torch import Reason, explain

ELEMENTS = 1000


def values(rank: int, dtype: torch.dtype = torch.float32, elements: int = ELEMENTS) -> torch.Tensor:
    """A rank's share, from a seed that names the rank."""
    generator = torch.Generator().manual_seed(rank)
    return torch.empty(elements).uniform_(-1, 1, generator=generator).to(dtype)


def mine() -> torch.Tensor:
    return values(dist.get_rank())


def sum_in_network(dtype: torch.dtype, op: str) -> tuple[list[float], str]:
    tensor = values(dist.get_rank(), dtype)
    work = dist.all_reduce(tensor, op=getattr(dist.ReduceOp, op), async_op=True)
    work.wait()
    return tensor.double().tolist(), str(explain(work))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("op", ["SUM", "AVG"])
def test_floats_are_summed_in_the_network(mocked: World, dtype: torch.dtype, op: str) -> None:
    results = mocked.run(sum_in_network, dtype, op)
    assert {reason for _, reason in results} == {Reason.SUMMED}
    assert all(numbers == results[0][0] for numbers, _ in results)
    total = sum(values(rank, dtype).double() for rank in range(mocked.size))
    expected = total / (mocked.size if op == "AVG" else 1)
    tolerance = torch.finfo(dtype).eps * mocked.size
    torch.testing.assert_close(torch.tensor(results[0][0]).double(), expected, atol=tolerance, rtol=tolerance)


def check_handle() -> None:
    tensor = mine()
    work = dist.all_reduce(tensor, async_op=True)
    future = work.get_future()
    assert work.wait() is True
    assert work.is_completed()
    assert work.is_success()
    assert work.exception() is None
    assert work.result()[0].data_ptr() == tensor.data_ptr()
    assert [t.data_ptr() for t in future.wait()] == [tensor.data_ptr()]
    assert future.then(lambda f: f.value()[0].numel()).wait() == ELEMENTS


def test_a_handle_behaves_like_gloos(mocked: World) -> None:
    mocked.run(check_handle)
