"""All-reduces of sparse tensors: sums of rows, equal on all ranks, in the network where that moves fewer bytes."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch.distributed as dist
from aggregator import aggregator
from world import Failure, World

import torch
from wiresum import errors
from wiresum.bench.sparse_allreduce import balanced
from wiresum.torch import Reason, explain, report

FAULT_TIMEOUT_S = 3.0
"""The group's timeout where a peer is missing."""
LANE_BITS = 31
"""Magnitude of an int32 lane."""

Shape = tuple[tuple[int, ...], tuple[int, ...]]
"""Sizes of the sparse dimensions, and of the dense ones."""
SHAPES: tuple[Shape, ...] = (
    ((300,), (16,)),  # bitmaps of rows
    ((1_000_000,), (16,)),  # gaps between rows
    ((2**40, 2**20), (3, 2)),  # gaps of many bytes
    ((50, 40), ()),
    ((7,), (5, 4, 3)),
    ((900,), (1,)),
)
ENTRIES = (400, 0, 150)
"""Entries of each rank, with duplicates; one rank has none."""
POPULAR = 60
"""Rows from which half of the entries are drawn, so that ranks have rows in common."""


def sparse_tensor(indices: torch.Tensor, values: torch.Tensor, size: tuple[int, ...]) -> torch.Tensor:
    """As autograd makes them, without a look at the indices."""
    return torch.sparse_coo_tensor(indices, values, size, check_invariants=False)


def share(rank: int, shape: Shape, dtype: torch.dtype, entries: int, *, popular: int = POPULAR) -> torch.Tensor:
    """A rank's tensor, not coalesced, with duplicates."""
    sparse, dense = shape
    random = torch.Generator().manual_seed(1 + rank)
    indices = torch.stack([torch.randint(size, (entries,), generator=random) for size in sparse])
    indices[:, ::2] %= torch.tensor([[min(size, popular)] for size in sparse])
    values = torch.empty((entries, *dense)).uniform_(-1, 1, generator=random).to(dtype)
    return sparse_tensor(indices, values, sparse + dense)


def rows_of(tensor: torch.Tensor) -> dict[tuple[int, ...], torch.Tensor]:
    """Sums in float64, by index."""
    sums: dict[tuple[int, ...], torch.Tensor] = {}
    for index, value in zip(tensor._indices().T.tolist(), tensor._values().double(), strict=True):
        sums[tuple(index)] = sums.get(tuple(index), 0) + value
    return sums


def reduced(shape: Shape, dtype: torch.dtype, op: str, entries: tuple[int, ...], popular: int) -> dict[str, Any]:
    rank = dist.get_rank()
    tensor = share(rank, shape, dtype, entries[rank], popular=popular)
    work = dist.all_reduce(tensor, op=getattr(dist.ReduceOp, op), async_op=True)
    work.wait()
    assert tensor.is_coalesced()
    assert work.result()[0] is tensor
    return {"reason": explain(work), "indices": tensor.indices(), "values": tensor.values(), "size": tensor.size()}


@pytest.mark.parametrize("op", ["SUM", "AVG"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("popular", [POPULAR, 2**62], ids=["in common", "apart"])
def test_rows_are_summed_to_the_same_bits_on_all_ranks(
    networked: World, dtype: torch.dtype, op: str, popular: int
) -> None:
    for shape in SHAPES:
        results = networked.run(reduced, shape, dtype, op, ENTRIES, popular)
        expected: dict[tuple[int, ...], Any] = {}
        largest = 0.0
        for rank, entries in enumerate(ENTRIES):
            for index, value in rows_of(share(rank, shape, dtype, entries, popular=popular)).items():
                expected[index] = expected.get(index, 0) + value / (networked.size if op == "AVG" else 1)
                largest = max(largest, float(value.abs().max()))
        first = results[0]
        for result in results:
            assert result["reason"] in {Reason.SUMMED, Reason.GATHERED}
            assert torch.equal(result["indices"], first["indices"])
            assert torch.equal(result["values"], first["values"])
            assert result["size"] == torch.Size(shape[0] + shape[1])
        assert [tuple(index) for index in first["indices"].T.tolist()] == sorted(expected)
        sums = torch.stack([expected[index] for index in sorted(expected)])
        room = 2.0 ** math.ceil(math.log2(networked.size))
        lanes = networked.size * room * largest * 2.0**-LANE_BITS  # the codec's bound
        # Duplicates are merged and rounded to the type on their rank, sums once more.
        rounding = (networked.size + 1) * torch.finfo(dtype).eps * largest
        torch.testing.assert_close(first["values"].double(), sums, atol=lanes + rounding, rtol=0)


@pytest.mark.parametrize("dtype", [torch.float64, torch.int64, torch.int32, torch.uint8], ids=str)
def test_other_types_are_summed_by_gloo(networked: World, dtype: torch.dtype) -> None:
    shape = ((1000,), (2,))
    results = networked.run(reduced, shape, dtype, "SUM", ENTRIES, POPULAR)
    total = sum(share(rank, shape, dtype, entries).to_dense() for rank, entries in enumerate(ENTRIES))
    for result in results:
        assert result["reason"] is Reason.ELEMENT_TYPE
        dense = sparse_tensor(result["indices"], result["values"], result["size"]).to_dense()
        torch.testing.assert_close(dense, total)
        assert torch.equal(result["values"], results[0]["values"])


def test_ranks_without_rows_get_the_others_rows_or_none(networked: World) -> None:
    for result in networked.run(reduced, ((100,), (4,)), torch.float32, "SUM", (0, 0, 0), POPULAR):
        assert result["indices"].shape == (1, 0)
        assert result["values"].shape == (0, 4)
    for result in networked.run(reduced, ((100,), (0,)), torch.float32, "SUM", ENTRIES, POPULAR):
        assert result["values"].shape[1] == 0
        assert result["indices"].shape[1] > 0


def reasons() -> list[str]:
    rank, size = dist.get_rank(), dist.get_world_size()
    apart = torch.arange(100) + 100 * rank
    tensors = {
        "common": sparse_tensor(torch.arange(100)[None], torch.ones(100, 8), (10_000, 8)),
        "apart": sparse_tensor(apart[None], torch.ones(100, 8), (10_000, 8)),
    }
    found = []
    for tensor in tensors.values():
        rows = tensor._nnz()
        before = counts()
        work = dist.all_reduce(tensor, async_op=True)
        work.wait()
        found.append(str(explain(work)))
        after = counts()
        reason = explain(work)
        added = [a - b for a, b in zip(after[reason], before.get(reason, (0, 0)), strict=True)]
        assert added == [rows, tensor._nnz()]
        assert tensor._nnz() == (rows if found[-1] == "summed" else rows * size)
    assert " rows of " in str(report())
    return found


def counts() -> dict[Reason, tuple[int, int]]:
    rows = [row for row in report().groups[0].rows if row.rows_of_all and row.element_type == "float32"]
    return {row.reason: (row.rows, row.rows_of_all) for row in rows if row.operation == "SUM"}


def test_what_moves_fewer_bytes_is_chosen_and_reported_with_its_rows(networked: World) -> None:
    for found in networked.run(reasons):
        assert found == ["summed", "gathered"]


def mixed() -> None:
    """Sparse and dense sums under way at once, in one order."""
    rank, size = dist.get_rank(), dist.get_world_size()
    works, checks = [], []
    for number in range(12):
        dense = torch.full((1000 + number,), float(rank + number))
        indices = torch.arange(0, 400, number + 1)
        tensor = sparse_tensor(indices[None], torch.full((len(indices), 8), float(rank)), (500, 8))
        works += [dist.all_reduce(tensor, async_op=True), dist.all_reduce(dense, async_op=True)]
        checks += [(tensor, size * (size - 1) / 2), (dense, size * (size - 1) / 2 + number * size)]
    for work, (tensor, expected) in zip(works, checks, strict=True):
        work.wait()
        values = tensor.values() if tensor.is_sparse else tensor
        torch.testing.assert_close(values, torch.full_like(values, expected))
        assert explain(work) is Reason.SUMMED


def test_sparse_and_dense_sums_are_made_in_the_order_of_the_calls(networked: World) -> None:
    networked.run(mixed)


def by_hash(shape: Shape) -> None:
    rank = dist.get_rank()
    ours, theirs = (share(rank, shape, torch.float32, ENTRIES[rank]) for _ in range(2))
    balanced.all_reduce(ours)
    gloo = dist.new_group(backend="gloo")
    dist.all_reduce(theirs, group=gloo)
    dist.destroy_process_group(gloo)
    assert ours.is_coalesced()
    assert torch.equal(ours.indices(), theirs.coalesce().indices())
    torch.testing.assert_close(ours.values(), theirs.coalesce().values())


def test_the_benchmarks_rival_has_gloos_sums(networked: World) -> None:
    networked.run(by_hash, SHAPES[1])


def not_finite() -> None:
    values = torch.ones(100, 8)
    values[7, 3] = math.nan if dist.get_rank() == 1 else 1.0
    values[8, 2] = math.inf if dist.get_rank() == 2 else 1.0
    tensor = sparse_tensor(torch.arange(100)[None], values, (1000, 8))
    work = dist.all_reduce(tensor, async_op=True)
    work.wait()
    assert explain(work) is Reason.NOT_FINITE
    sums = tensor.values()
    assert sums[7, 3].isnan()
    assert sums[8, 2] == math.inf
    assert int(sums.isfinite().sum()) == sums.numel() - 2


def test_inf_and_nan_come_out_where_they_went_in(networked: World) -> None:
    networked.run(not_finite)


def bad(what: str) -> str:
    rank = dist.get_rank()
    size: tuple[int, ...] = (100, 4)
    dtype, index = torch.float32, 5
    if rank == 1:
        index = {"beyond": 100, "negative": -1}.get(what, index)
        size = {"size": (101, 4), "width": (100, 2)}.get(what, size)
        dtype = torch.float16 if what == "type" else dtype
    if what == "dimensions":
        size = (100, *[1] * 9)
    tensor = sparse_tensor(torch.tensor([[3, index]]), torch.ones((2, *size[1:]), dtype=dtype), size)
    op = dist.ReduceOp.AVG if what == "operation" and rank == 1 else dist.ReduceOp.SUM
    with pytest.raises(errors.CollectiveError) as caught:
        dist.all_reduce(tensor, op=op)
    kind = type(caught.value).__name__
    fine = sparse_tensor(torch.tensor([[rank]]), torch.ones(1), (3,))
    dist.all_reduce(fine)
    after = torch.ones(1000)
    dist.all_reduce(after)
    assert after[-1] == dist.get_world_size()
    assert fine.to_dense().tolist() == [1.0] * 3
    return f"{kind}: {caught.value}"


@pytest.mark.parametrize(
    ("what", "kind", "words"),
    [
        ("beyond", "CollectiveError", ["rank 1: index 100 is outside of dimension 0, whose size is 100"]),
        ("negative", "CollectiveError", ["rank 1: index -1 is outside of dimension 0"]),
        ("dimensions", "CollectiveError", ["ranks 0, 1, 2: a sparse tensor of more than 8 dimensions"]),
        ("size", "MismatchError", ["ranks 0, 2: sparse float32 of size [100, 4]", "rank 1: sparse float32 of size ["]),
        ("width", "MismatchError", ["rank 1: sparse float32 of size [100, 2]"]),
        ("type", "MismatchError", ["rank 1: sparse float16"]),
        ("operation", "MismatchError", ["rank 1: sparse float32 of size [100, 4], of which 1 sparse, AVG"]),
    ],
)  # fmt: skip
def test_bad_input_is_the_same_error_on_all_ranks_and_the_group_goes_on(
    networked: World, what: str, kind: str, words: list[str]
) -> None:
    for message in networked.run(bad, what):
        assert message.startswith(f"{kind}: ")
        for word in words:
            assert word in message


def sum_of_rows() -> float:
    tensor = sparse_tensor(torch.arange(100)[None], torch.ones(100, 8), (1000, 8))
    dist.all_reduce(tensor)
    return float(tensor.values().mean())


def dense_sum_fails() -> str:
    with pytest.raises(errors.CollectiveError) as caught:
        dist.all_reduce(torch.ones(1000))
    return str(caught.value)


def test_a_dead_worker_ends_sums_of_rows_and_all_after_them(tmp_path: Path) -> None:
    with aggregator(tmp_path, 2) as node:
        environment = {"WIRESUM_PLAN": str(node.plan_file), "WIRESUM_MIN_ELEMENTS": "1"}
        with World(2, environment, timeout_s=FAULT_TIMEOUT_S) as world:
            assert world.run(sum_of_rows) == [2.0, 2.0]
            world.processes[1].kill()
            (failure,) = world.try_to_run(sum_of_rows, ranks=[0])
            assert isinstance(failure, Failure)
            assert failure.kind == "CollectiveError"
            assert "the ranks could not exchange their rows" in failure.message
            assert "closed, by an earlier error" in world.run(dense_sum_fails, ranks=[0])[0]
