"""Small all-reduces and barriers in one exchange: every type and operation beside Gloo, and ranks that disagree."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import beside_gloo
import pytest
import torch.distributed as dist
from aggregator import aggregator
from world import Failure, World

import torch
from wiresum.plan.job import Job
from wiresum.torch import Reason, explain

RANKS = 3
LENGTHS = (0, 1, 3, 64, 255)
FLOATS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
INTEGERS = (torch.int64, torch.int32, torch.int8, torch.uint8)
ARITHMETIC = ("SUM", "PRODUCT", "MIN", "MAX")
BITWISE = ("BAND", "BOR", "BXOR")
MAX_SHARE = 4096
"""Bytes of the largest share of a rank."""


@contextmanager
def _sharing(directory: Path, job: Job) -> Iterator[World]:
    with aggregator(directory, RANKS, job) as node, World(RANKS, {"WIRESUM_PLAN": str(node.plan_file)}) as world:
        yield world


@pytest.fixture(scope="module")
def sharing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """A world whose small collectives travel over loopback, with the threshold that users have."""
    with _sharing(tmp_path_factory.mktemp("sharing"), Job()) as world:
        yield world


@pytest.fixture
def sharing_of_its_own(tmp_path: Path) -> Iterator[World]:
    """The same for a test that breaks it."""
    with _sharing(tmp_path, Job()) as world:
        yield world


def operations(dtype: torch.dtype) -> tuple[str, ...]:
    """Those that Gloo has for a type."""
    if dtype.is_floating_point:
        return (*ARITHMETIC, "AVG")
    return ARITHMETIC + BITWISE


def exact(length: int, dtype: torch.dtype) -> torch.Tensor:
    """Small whole numbers that differ by rank, whose sums and products no type rounds."""
    return (torch.arange(length) % 3 + dist.get_rank() + 1).to(dtype)


def reduced(dtype: torch.dtype, group: Any) -> Iterator[torch.Tensor]:
    """A type by every operation, at every length, whole, in columns, and several tensors as one."""
    for operation in operations(dtype):
        op = getattr(dist.ReduceOp, operation)
        for length in LENGTHS:
            # An average of whole numbers is exact where Gloo divides and we do, in the same type.
            tensor = exact(length, dtype) * (RANKS if operation == "AVG" else 1)
            work = dist.all_reduce(tensor, op, group, async_op=True)
            work.wait()
            if dist.get_backend(group) == "wiresum":
                assert explain(work) is Reason.SHARED, (dtype, operation, length)
            yield tensor
        columns = exact(12, dtype).reshape(3, 4).t()
        dist.all_reduce(columns, op, group)
        yield columns


@pytest.mark.parametrize("dtype", FLOATS + INTEGERS, ids=str)
def test_every_type_and_operation_has_the_bits_of_gloo(sharing: World, dtype: torch.dtype) -> None:
    for compared, shared in sharing.run(beside_gloo.compare, partial(reduced, dtype), "shared"):
        assert shared == compared


def flags(group: Any) -> Iterator[torch.Tensor]:
    for operation in (*ARITHMETIC, *BITWISE):
        tensor = torch.tensor([dist.get_rank() == 0, True, False, dist.get_rank() > 0])
        dist.all_reduce(tensor, getattr(dist.ReduceOp, operation), group)
        yield tensor.view(torch.uint8) != 0


def test_booleans_are_truth_values(sharing: World) -> None:
    for compared, shared in sharing.run(beside_gloo.compare, flags, "shared"):
        assert shared == compared


def rounded(dtype: torch.dtype) -> list[Any]:
    """A sum that is rounded, of numbers of its own; its bits."""
    tensor = torch.randn(100, generator=torch.Generator().manual_seed(dist.get_rank())).to(dtype)
    dist.all_reduce(tensor)
    return tensor.view(torch.uint8).tolist()


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_sums_are_rounded_alike_everywhere_in_rank_order(sharing: World, dtype: torch.dtype) -> None:
    each = [torch.randn(100, generator=torch.Generator().manual_seed(rank)).to(dtype) for rank in range(RANKS)]
    wide = torch.float64 if dtype is torch.float64 else torch.float32
    expected = ((each[0].to(wide) + each[1].to(wide)) + each[2].to(wide)).to(dtype)
    assert sharing.run(rounded, dtype) == [expected.view(torch.uint8).tolist()] * RANKS


def special() -> list[str]:
    """Sums of what is not finite; nobody repeats them."""
    own = [float("inf"), float("nan"), float("-inf"), -0.0][: 4 if dist.get_rank() == 1 else 0]
    tensor = torch.tensor(own or [1.0, 1.0, float("inf") if dist.get_rank() == 0 else 1.0, -0.0])
    work = dist.all_reduce(tensor, async_op=True)
    work.wait()
    return [*map(str, tensor.tolist()), explain(work)]


def test_infinities_and_nan_pass_as_they_are(sharing: World) -> None:
    assert sharing.run(special) == [["inf", "nan", "nan", "-0.0", "shared"]] * RANKS


def at_the_limit() -> list[Reason]:
    found = []
    for elements in (MAX_SHARE // 8, MAX_SHARE // 8 + 1):
        tensor = torch.full((elements,), dist.get_rank() + 1, dtype=torch.int64)
        work = dist.all_reduce(tensor, async_op=True)
        work.wait()
        assert tensor.eq(sum(range(1, RANKS + 1))).all()
        found.append(explain(work))
    return found


def test_the_largest_share_is_shared_and_one_more_goes_through_gloo(sharing: World) -> None:
    assert sharing.run(at_the_limit) == [[Reason.SHARED, Reason.ELEMENT_TYPE]] * RANKS


def among_large_sums() -> tuple[list[float], list[Reason]]:
    """Small collectives between large ones, all under way at once, and what futures say of them."""
    large = [torch.full((50_000,), float(dist.get_rank())) for _ in range(3)]
    small = [torch.full((4,), dist.get_rank(), dtype=torch.int64) for _ in range(3)]
    works = []
    for pair in zip(large, small, strict=True):
        works += [dist.all_reduce(tensor, async_op=True) for tensor in pair]
    works.append(dist.barrier(async_op=True))
    values = [float(work.get_future().wait()[0][0]) for work in works[:-1]]
    works[-1].wait()
    return values, [explain(work) for work in works]


def test_small_ones_among_large_ones_keep_their_values(sharing: World) -> None:
    for values, reasons in sharing.run(among_large_sums):
        assert values == [3.0] * 6
        assert reasons == [Reason.SUMMED, Reason.SHARED] * 3 + [Reason.SHARED]


def disagreeing(case: str) -> None:
    if dist.get_rank() == 1:
        if case == "barrier":
            dist.barrier()
        elif case == "length":
            dist.all_reduce(torch.ones(5))
        elif case == "type":
            dist.all_reduce(torch.ones(4, dtype=torch.int32))
        else:
            dist.all_reduce(torch.ones(4), dist.ReduceOp.MAX)
    else:
        dist.all_reduce(torch.ones(4))


@pytest.mark.parametrize("case", ["barrier", "length", "type", "operation"])
def test_ranks_that_disagree_are_told_what_each_passed(sharing_of_its_own: World, case: str) -> None:
    for failure in sharing_of_its_own.try_to_run(disagreeing, case):
        assert isinstance(failure, Failure)
        assert failure.kind == "MismatchError"
        assert "small all_reduce of 16 bytes" in failure.message


def barrier() -> Reason:
    work = dist.barrier(async_op=True)
    work.wait()
    return explain(work)


def test_sealed_jobs_whose_agreements_travel_in_the_open_keep_gloo(tmp_path: Path) -> None:
    with _sharing(tmp_path, Job(sealed=True)) as world:
        assert world.run(barrier) == [Reason.COLLECTIVE] * RANKS
