"""Gathers and scatters, small ones in one exchange: every form, type and root beside Gloo, and where ranks disagree."""

from __future__ import annotations

from collections.abc import Callable, Iterator
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
LENGTHS = (1, 3, 64, 255)
DTYPES = (
    torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int8, torch.uint8,
)  # fmt: skip
MAX_SHARE = 4096
"""Bytes of the largest share of a rank."""


@pytest.fixture
def sharing_of_its_own(tmp_path: Path) -> Iterator[World]:
    """A world for a test that breaks it."""
    with aggregator(tmp_path, RANKS, Job()) as node, World(RANKS, {"WIRESUM_PLAN": str(node.plan_file)}) as world:
        yield world


@pytest.fixture(scope="module")
def sharing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    directory = tmp_path_factory.mktemp("sharing")
    with aggregator(directory, RANKS, Job()) as node, World(RANKS, {"WIRESUM_PLAN": str(node.plan_file)}) as world:
        yield world


def own(length: int, dtype: torch.dtype, step: int = 0) -> torch.Tensor:
    """Bytes that differ by rank and place, whatever they mean as numbers."""
    count = length * dtype.itemsize
    return ((torch.arange(count) * 7 + 31 * dist.get_rank() + step) % 251).to(torch.uint8).view(dtype)


def empty(length: int, dtype: torch.dtype) -> list[torch.Tensor]:
    return [torch.zeros(length, dtype=dtype) for _ in range(RANKS)]


def gather(length: int, dtype: torch.dtype, root: int, group: Any) -> tuple[Any, torch.Tensor]:
    outputs = empty(length, dtype) if dist.get_rank() == root else None
    work = dist.gather(own(length, dtype), outputs, root, group, async_op=True)
    work.wait()
    return work, torch.cat(outputs or [own(length, dtype)])


def gather_columns(length: int, dtype: torch.dtype, root: int, group: Any) -> tuple[Any, torch.Tensor]:
    """Outputs that are not contiguous, which Gloo does not take."""
    if dist.get_backend(group) != "wiresum":
        return gather(2 * length, dtype, root, group)
    outputs = [torch.zeros(2, length, dtype=dtype).t() for _ in range(RANKS)] if dist.get_rank() == root else None
    work = dist.gather(own(2 * length, dtype).reshape(length, 2), outputs, root, group, async_op=True)
    work.wait()
    return work, torch.cat([output.reshape(-1) for output in outputs or [own(2 * length, dtype)]])


def gather_single(length: int, dtype: torch.dtype, root: int, group: Any) -> tuple[Any, torch.Tensor]:
    """One tensor for all shares; as a list where Gloo has no such form."""
    if dist.get_backend(group) != "wiresum":
        return gather(length, dtype, root, group)
    output = torch.zeros(RANKS * length, dtype=dtype) if dist.get_rank() == root else None
    work = dist.gather_single(own(length, dtype), output, root, group, async_op=True)
    work.wait()
    return work, own(length, dtype) if output is None else output


def scatter(length: int, dtype: torch.dtype, root: int, group: Any) -> tuple[Any, torch.Tensor]:
    output = torch.zeros(length, dtype=dtype)
    inputs = [own(length, dtype, step) for step in range(RANKS)] if dist.get_rank() == root else None
    work = dist.scatter(output, inputs, root, group, async_op=True)
    work.wait()
    return work, output


def scatter_in_place(length: int, dtype: torch.dtype, root: int, group: Any) -> tuple[Any, torch.Tensor]:
    """The root's output is one of its inputs."""
    inputs = [own(length, dtype, step) for step in range(RANKS)]
    output = inputs[(root + 1) % RANKS] if dist.get_backend(group) == "wiresum" else torch.zeros_like(inputs[0])
    work = dist.scatter(output, inputs if dist.get_rank() == root else None, root, group, async_op=True)
    work.wait()
    return work, output


def gather_chunks(length: int, dtype: torch.dtype, root: int, group: Any) -> tuple[Any, torch.Tensor]:
    """Outputs that are one tensor, in its order or against it; the root's input is its own place there."""
    whole = torch.zeros(RANKS * length, dtype=dtype)
    outputs = list(whole.chunk(RANKS))[:: -1 if root == 1 else 1]
    share = outputs[root].copy_(own(length, dtype)) if dist.get_rank() == root else own(length, dtype)
    work = dist.gather(share, outputs if dist.get_rank() == root else None, root, group, async_op=True)
    work.wait()
    return work, whole


def scatter_chunks(length: int, dtype: torch.dtype, root: int, group: Any) -> tuple[Any, torch.Tensor]:
    """Inputs that are one tensor, which stays as it is."""
    whole = own(RANKS * length, dtype)
    output = torch.zeros(length, dtype=dtype)
    inputs = list(whole.chunk(RANKS)) if dist.get_rank() == root else None
    work = dist.scatter(output, inputs, root, group, async_op=True)
    work.wait()
    assert torch.equal(whole.view(torch.uint8), own(RANKS * length, dtype).view(torch.uint8))
    return work, output


FORMS: tuple[Callable[..., tuple[Any, torch.Tensor]], ...] = (
    gather, gather_columns, gather_single, gather_chunks, scatter, scatter_in_place, scatter_chunks,
)  # fmt: skip


def results(form: str, group: Any) -> Iterator[torch.Tensor]:
    for dtype in DTYPES:
        for length in LENGTHS:
            for root in range(RANKS):
                # Shares of all ranks together are the root's share of a scatter.
                fitting = min(length, MAX_SHARE // (2 * RANKS * dtype.itemsize))
                work, found = globals()[form](fitting, dtype, root, group)
                if dist.get_backend(group) == "wiresum":
                    assert explain(work) is Reason.SHARED, (dtype, length, root)
                yield found.view(torch.uint8)


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.__name__)
def test_every_form_type_and_root_has_the_bits_of_gloo(sharing: World, form: Callable[..., Any]) -> None:
    for compared, shared in sharing.run(beside_gloo.compare, partial(results, form.__name__), "shared"):
        assert shared == compared == len(DTYPES) * len(LENGTHS) * RANKS


def at_the_limit() -> list[Reason]:
    most_of_scatter = MAX_SHARE // RANKS
    calls = ((gather, MAX_SHARE), (gather, MAX_SHARE + 1), (scatter, most_of_scatter), (scatter, most_of_scatter + 1))
    return [explain(form(length, torch.uint8, 1, dist.group.WORLD)[0]) for form, length in calls]


def test_what_is_larger_goes_through_gloo(sharing: World) -> None:
    assert sharing.run(at_the_limit) == [[Reason.SHARED, Reason.COLLECTIVE] * 2] * RANKS


def values_of_futures() -> list[list[float]]:
    """What futures say: the root of a gather has all shares, the others nothing."""
    rank = dist.get_rank()
    mine = torch.tensor([float(rank)])
    outputs = [torch.zeros(1) for _ in range(RANKS)] if rank == 1 else None
    gathered = dist.gather(mine, outputs, 1, async_op=True).get_future().wait()
    inputs = [torch.tensor([10.0 + place]) for place in range(RANKS)] if rank == 2 else None
    scattered = dist.scatter(mine, inputs, 2, async_op=True).get_future().wait()
    return [[float(tensor) for tensor in gathered], [float(tensor) for tensor in scattered]]


def test_futures_have_what_this_rank_takes(sharing: World) -> None:
    found = sharing.run(values_of_futures)
    assert [gathered for gathered, _ in found] == [[], [0.0, 1.0, 2.0], []]
    assert [scattered for _, scattered in found] == [[10.0], [11.0], [12.0]]


def uneven() -> None:
    """A list that does not fit is Gloo's to refuse, at the root alone."""
    if dist.get_rank() == 0:
        outputs = [torch.zeros(2 + place) for place in range(RANKS)]
        with pytest.raises((RuntimeError, ValueError)):
            dist.gather(torch.ones(2), outputs, 0)


def test_a_list_that_does_not_fit_is_refused(sharing_of_its_own: World) -> None:
    sharing_of_its_own.run(uneven, ranks=[0])


def disagreeing() -> None:
    if dist.get_rank() == 1:
        gather(4, torch.float32, 1, dist.group.WORLD)
    else:
        gather(4, torch.float32, 0, dist.group.WORLD)


def test_ranks_that_name_other_roots_are_told_so(sharing_of_its_own: World) -> None:
    for failure in sharing_of_its_own.try_to_run(disagreeing):
        assert isinstance(failure, Failure)
        assert failure.kind == "MismatchError"
        assert "small gather to rank 1 of 16 bytes" in failure.message


LARGE_LENGTHS = (4097, 20_011)
"""Elements of a share, so that shares of any type are too long for one exchange."""
LARGE_DTYPES = (torch.float32, torch.bfloat16, torch.int64, torch.uint8)


def large_results(form: str, group: Any) -> Iterator[torch.Tensor]:
    for dtype in LARGE_DTYPES:
        for length in LARGE_LENGTHS:
            for root in range(RANKS):
                work, found = globals()[form](length, dtype, root, group)
                if dist.get_backend(group) == "wiresum":
                    assert explain(work) is Reason.COPIED, (dtype, length, root)
                yield found.view(torch.uint8)


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.__name__)
def test_large_ones_have_the_bits_of_gloo_where_the_plan_has_copies(copying: World, form: Callable[..., Any]) -> None:
    for compared, copied in copying.run(beside_gloo.compare, partial(large_results, form.__name__), "copied"):
        assert copied == compared == len(LARGE_DTYPES) * len(LARGE_LENGTHS) * RANKS


def test_small_ones_are_shared_where_the_plan_has_copies(copying: World) -> None:
    assert copying.run(at_the_limit) == [[Reason.SHARED, Reason.COPIED] * 2] * RANKS


def many_at_once() -> list[bool]:
    """Gathers and scatters under way together with each other and with sums; whether what each brings is right."""
    rank, begun = dist.get_rank(), []
    for n in range(1, 11):
        root, length = n % RANKS, 4100 * n
        outputs = empty(length, torch.int32) if rank == root else None
        inputs = [torch.full((length,), 10 * n + place) for place in range(RANKS)] if rank == root else None
        gathered = [(output, place + n) for place, output in enumerate(outputs or [])]
        part, total = torch.zeros(length, dtype=torch.int64), torch.ones(length)
        mine = torch.full((length,), rank + n, dtype=torch.int32)
        begun += [
            (dist.gather(mine, outputs, root, async_op=True), gathered),
            (dist.scatter(part, inputs, root, async_op=True), [(part, 10 * n + rank)]),
            (dist.all_reduce(total, async_op=True), [(total, RANKS)]),
        ]
    for work, _ in begun:
        work.wait()
    return [bool((found == expected).all()) for _, pairs in begun for found, expected in pairs]


def test_many_at_once(copying: World) -> None:
    for right in copying.run(many_at_once):
        assert all(right)
        assert len(right) >= 20


def disagreeing_about_lengths() -> None:
    length = 5000 + dist.get_rank()
    dist.gather(torch.ones(length), empty(length, torch.float32) if dist.get_rank() == 2 else None, 2)


def test_ranks_that_give_other_lengths_are_told_so(copies_of_its_own: World) -> None:
    for failure in copies_of_its_own.try_to_run(disagreeing_about_lengths):
        assert isinstance(failure, Failure)
        assert failure.kind == "MismatchError"
        assert "rank 1: gather to rank 2 of 20004 bytes" in failure.message
