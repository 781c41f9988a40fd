"""Reduce and reduce-scatter through the network, in every form, beside Gloo: real sums over loopback."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import beside_gloo
import pytest
import torch.distributed as dist
from world import World

import torch
from wiresum.torch import Reason, explain

ROOT = 1
LENGTHS = (1, 100, 352, 5000)
"""Elements of a share; parts begin and end within packets of 352 values."""
DTYPES = (torch.float32, torch.float16, torch.bfloat16)


def whole(elements: int, dtype: torch.dtype) -> torch.Tensor:
    """Multiples of the number of ranks, so that sums and averages are exact in every type."""
    size = dist.get_world_size()
    return (size * ((torch.arange(elements) * 7 + 3 * dist.get_rank()) % 11 - 5)).to(dtype)


def summed(work: Any) -> None:
    """Waits for a collective of this backend, or of Gloo."""
    work.wait()
    if dist.get_backend(current) == "wiresum":
        assert explain(work) is Reason.SUMMED


current: Any = None
"""The group whose turn it is."""


def single(length: int, dtype: torch.dtype, op: Any) -> torch.Tensor:
    output = torch.empty(length, dtype=dtype)
    source = whole(length * dist.get_world_size(), dtype)
    before = source.clone()
    summed(dist.reduce_scatter_tensor(output, source, op, current, async_op=True))
    assert torch.equal(source, before)
    return output


def rows_and_columns(length: int, dtype: torch.dtype, op: Any) -> torch.Tensor:
    """Neither the input nor the output is contiguous."""
    size = dist.get_world_size()
    source = whole(2 * length * size, dtype).reshape(2, -1).t()
    output = torch.zeros(2, 2 * length, dtype=dtype).t()[::2]
    summed(dist.reduce_scatter_tensor(output, source, op, current, async_op=True))
    return output


def in_place(length: int, dtype: torch.dtype, op: Any) -> torch.Tensor:
    """The output is this rank's share of the input."""
    rank = dist.get_rank()
    source = whole(length * dist.get_world_size(), dtype)
    part = slice(rank * length, (rank + 1) * length)
    others = source.clone()
    summed(dist.reduce_scatter_tensor(source[part], source, op, current, async_op=True))
    others[part] = source[part]
    assert torch.equal(source, others)
    return source


def over_the_first_share(length: int, dtype: torch.dtype, op: Any) -> torch.Tensor:
    """The output lies over values that are still to be sent."""
    source = whole(length * dist.get_world_size(), dtype)
    summed(dist.reduce_scatter_tensor(source[:length], source, op, current, async_op=True))
    return source[:length]


def listed(length: int, dtype: torch.dtype, op: Any) -> torch.Tensor:
    output = torch.empty(length, dtype=dtype)
    shares = list(whole(length * dist.get_world_size(), dtype).chunk(dist.get_world_size()))
    summed(dist.reduce_scatter(output, shares, op, current, async_op=True))
    return output


def coalesced(length: int, dtype: torch.dtype, op: Any) -> torch.Tensor:
    size = dist.get_world_size()
    outputs = [torch.empty(n, dtype=dtype) for n in (length, 3, 2 * length)]
    with dist._coalescing_manager(group=current, async_ops=True) as manager:
        for output in outputs:
            dist.reduce_scatter_tensor(output, whole(size * len(output), dtype), op, current)
    manager.wait()
    return torch.cat(outputs)


def to_a_root(length: int, dtype: torch.dtype, op: Any) -> torch.Tensor:
    tensor = whole(length, dtype)
    before = tensor.clone()
    work = dist.reduce(tensor, ROOT, op, current, async_op=True)
    summed(work)
    if dist.get_rank() == ROOT:
        return tensor
    if dist.get_backend(current) == "wiresum":
        assert torch.equal(tensor, before)
    return torch.empty(0)


def to_a_root_by_rows(length: int, dtype: torch.dtype, op: Any) -> torch.Tensor:
    tensor = whole(2 * length, dtype).reshape(2, -1).t()
    summed(dist.reduce(tensor, ROOT, op, current, async_op=True))
    return tensor if dist.get_rank() == ROOT else torch.empty(0)


FORMS: tuple[Callable[..., torch.Tensor], ...] = (
    single, rows_and_columns, in_place, over_the_first_share, listed, coalesced, to_a_root, to_a_root_by_rows,
)  # fmt: skip


def results(form: str, group: Any) -> Iterator[torch.Tensor]:
    global current  # noqa: PLW0603 – a rank's process runs one check at a time
    current = group
    for length in LENGTHS:
        for dtype in DTYPES:
            for op in (dist.ReduceOp.SUM, dist.ReduceOp.AVG):
                yield globals()[form](length, dtype, op)


def compare(form: str) -> tuple[int, int]:
    """How many results have Gloo's bits, and how many collectives the network has summed for them."""
    return beside_gloo.compare(partial(results, form), "summed")


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.__name__)
def test_results_are_gloos_and_come_from_the_network(networked: World, form: Callable[..., torch.Tensor]) -> None:
    compared = len(LENGTHS) * len(DTYPES) * 2
    assert networked.run(compare, form.__name__) == [(compared, compared)] * networked.size


def poisoned() -> list[Any]:
    """Inf and NaN in one rank's values, in shares of each of the ranks."""
    rank, size = dist.get_rank(), dist.get_world_size()
    found = []
    for owner in range(size):
        source = torch.ones(1000 * size)
        source[1000 * owner + 7] = math.inf if rank == 0 else 1.0
        output = torch.zeros(1000)
        work = dist.reduce_scatter_tensor(output, source, async_op=True)
        work.wait()
        assert explain(work) is Reason.NOT_FINITE
        found.append((output[7].item(), output[8].item()))
    tensor = torch.ones(1000)
    tensor[7] = math.nan if rank == 0 else 1.0
    before = tensor.clone()
    work = dist.reduce(tensor, ROOT, async_op=True)
    work.wait()
    assert explain(work) is Reason.NOT_FINITE
    if rank != ROOT:
        assert torch.equal(tensor.nan_to_num(-1), before.nan_to_num(-1))
    return [found, tensor[7].item(), tensor[8].item()]


def test_what_is_not_finite_comes_out_as_such(networked: World) -> None:
    for rank, (found, root_nan, root_sum) in enumerate(networked.run(poisoned)):
        size = networked.size
        assert found == [(math.inf if owner == rank else size, size) for owner in range(size)]
        if rank == ROOT:
            assert (math.isnan(root_nan), root_sum) == (True, size)


def in_turn() -> None:
    """Kinds one after the other, all under way at once."""
    size, rank = dist.get_world_size(), dist.get_rank()
    works, checks = [], []
    for n in range(12):
        everyone = torch.full((1000,), float(n + rank))
        output, source = torch.empty(400), torch.arange(400.0 * size) + n
        works += [dist.all_reduce(everyone, async_op=True), dist.reduce_scatter_tensor(output, source, async_op=True)]
        rooted = torch.full((300,), float(n))
        works.append(dist.reduce(rooted, n % size, async_op=True))
        share = torch.arange(400.0 * rank, 400.0 * (rank + 1)) + n
        checks += [(everyone, torch.full((1000,), float(n * size + sum(range(size))))), (output, size * share)]
        checks.append((rooted, torch.full((300,), float(n * size if n % size == rank else n))))
    for work in works:
        work.wait()
    for have, want in checks:
        assert torch.equal(have, want)


def test_kinds_follow_each_other(networked: World) -> None:
    networked.run(in_turn)


def uneven() -> str:
    """Shares of different lengths are Gloo's affair."""
    size, rank = dist.get_world_size(), dist.get_rank()
    shares = [torch.ones(100 + i) for i in range(size)]
    work = dist.reduce_scatter(torch.empty(100 + rank), shares, async_op=True)
    work.wait()
    return explain(work)


def test_uneven_shares_are_left_to_gloo(networked: World) -> None:
    assert networked.run(uneven) == [Reason.LAYOUT] * networked.size


def wrong_size() -> str:
    with pytest.raises((RuntimeError, ValueError)) as caught:
        dist.reduce_scatter_tensor(torch.empty(10), torch.ones(10 * dist.get_world_size() + 1))
    return str(caught.value)


def test_a_wrong_size_is_gloos_error(networked: World) -> None:
    assert all(networked.run(wrong_size))
