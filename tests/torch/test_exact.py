"""Large all-reduces of integers, and the least and largest of any type: Gloo's bits, by the network."""

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
from world import World

import torch
from wiresum.plan.job import Job
from wiresum.torch import Reason, explain

RANKS = 3
ELEMENTS = 20_001
"""Above the largest share of a rank in any type, and no whole number of packets."""
FLOATS = (torch.float32, torch.float16, torch.bfloat16)
INTEGERS = (torch.int32, torch.int8, torch.uint8)


@contextmanager
def _world(directory: Path, job: Job) -> Iterator[World]:
    with aggregator(directory, RANKS, job) as node, World(RANKS, {"WIRESUM_PLAN": str(node.plan_file)}) as world:
        yield world


@pytest.fixture(scope="module", params=["auto", "int32-le"])
def wide(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[World]:
    """Lanes for all types, as wide as these where the plan lets them."""
    with _world(tmp_path_factory.mktemp("wide"), Job(lanes=request.param)) as world:
        yield world


def bits(dtype: torch.dtype) -> torch.Tensor:
    """All that a type can hold, but what is no number."""
    generator = torch.Generator().manual_seed(dist.get_rank())
    raw = torch.randint(-128, 128, (ELEMENTS * dtype.itemsize,), dtype=torch.int8, generator=generator).view(dtype)
    return torch.where(raw.isnan(), 1.0, raw).to(dtype) if dtype.is_floating_point else raw


def reduced(dtype: torch.dtype, group: Any) -> Iterator[torch.Tensor]:
    for operation in ("MIN", "MAX") if dtype.is_floating_point else ("SUM", "MIN", "MAX"):
        op = getattr(dist.ReduceOp, operation)
        tensor = bits(dtype)
        work = dist.all_reduce(tensor, op, group, async_op=True)
        work.wait()
        if dist.get_backend(group) == "wiresum":
            assert explain(work) is Reason.SUMMED, (dtype, operation)
        yield tensor
        columns = bits(dtype)[:20_000].reshape(100, 200).t()
        dist.all_reduce(columns, op, group)
        yield columns


@pytest.mark.parametrize("dtype", FLOATS + INTEGERS, ids=str)
def test_every_type_and_operation_has_the_values_of_gloo(wide: World, dtype: torch.dtype) -> None:
    for compared, summed in wide.run(beside_gloo.compare, partial(reduced, dtype), "summed"):
        assert compared == summed == (4 if dtype.is_floating_point else 6)


def largest_with_a_hole() -> tuple[str, bool]:
    tensor = torch.full((ELEMENTS,), float(dist.get_rank()))
    if dist.get_rank() == 1:
        tensor[7] = float("nan")
    work = dist.all_reduce(tensor, dist.ReduceOp.MAX, async_op=True)
    work.wait()
    return str(explain(work)), bool((tensor[8:] == RANKS - 1).all())


def test_what_is_no_number_is_left_to_gloo(wide: World) -> None:
    assert wide.run(largest_with_a_hole) == [("not_finite", True)] * RANKS


def why_not(dtype: torch.dtype, operation: str) -> str:
    work = dist.all_reduce(bits(dtype), getattr(dist.ReduceOp, operation), async_op=True)
    work.wait()
    return str(explain(work))


@pytest.mark.parametrize(("job", "reasons"), [
    (Job(lanes="int16-le"), ("element_type", "summed")),
    (Job(sealed=True), ("element_type", "element_type")),
], ids=["narrow", "sealed"])  # fmt: skip
def test_where_lanes_are_narrow_or_sealed_gloo_has_it(tmp_path: Path, job: Job, reasons: tuple[str, str]) -> None:
    with _world(tmp_path, job) as world:
        for dtype, reason in zip((torch.int32, torch.int8), reasons, strict=True):
            assert world.run(why_not, dtype, "SUM") == [reason] * RANKS


def test_other_kinds_of_large_integers_go_through_gloo(wide: World) -> None:
    assert wide.run(scattered) == ["element_type"] * RANKS


def scattered() -> str:
    work = dist.reduce_scatter_tensor(
        torch.empty(5_000, dtype=torch.int32), torch.ones(RANKS * 5_000, dtype=torch.int32), async_op=True
    )
    work.wait()
    return str(explain(work))
