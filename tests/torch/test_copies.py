"""All-gather and broadcast through the network, in every form, beside Gloo: real copies over loopback."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import beside_gloo
import mock_engine
import pytest
import torch.distributed as dist
from mock_engine import NOT_SERVED, Fault, MockEngine
from torch._C._distributed_c10d import AllgatherOptions
from world import Failure, World

import torch
from wiresum.plan.job import Job
from wiresum.plan.options import PlanOptions
from wiresum.planners import plan
from wiresum.topology.generators.star import star
from wiresum.torch import Reason, explain

ROOT = 1
LENGTHS = (1, 100, 352, 5003)
"""Elements of a share; those of several bytes begin and end within packets of 1408 bytes."""
DTYPES = (torch.float32, torch.bfloat16, torch.int64, torch.bool)

current: Any = None
"""The group whose turn it is."""


def any_bits(length: int, dtype: torch.dtype) -> torch.Tensor:
    """Every rank's own bits, Inf and NaN with their payloads among them."""
    generator = torch.Generator().manual_seed(1000 * length + dist.get_rank())
    if dtype is torch.bool:
        return torch.randint(0, 2, (length,), generator=generator).bool()
    random = torch.randint(0, 256, (length * dtype.itemsize,), generator=generator, dtype=torch.uint8)
    return random.view(dtype)


def copied(work: Any) -> None:
    """Waits for a collective of this backend, or of Gloo."""
    work.wait()
    if dist.get_backend(current) == "wiresum":
        assert explain(work) is Reason.COPIED


def single(length: int, dtype: torch.dtype) -> torch.Tensor:
    output = torch.empty(length * dist.get_world_size(), dtype=dtype)
    copied(dist.all_gather_into_tensor(output, any_bits(length, dtype), current, async_op=True))
    return output


def in_place(length: int, dtype: torch.dtype) -> torch.Tensor:
    """The input is this rank's place in the output, as FSDP2 has it."""
    output = torch.zeros(length * dist.get_world_size(), dtype=dtype)
    own = output.narrow(0, dist.get_rank() * length, length)
    own.copy_(any_bits(length, dtype))
    copied(dist.all_gather_into_tensor(output, own, current, async_op=True))
    return output


def from_the_first_place(length: int, dtype: torch.dtype) -> torch.Tensor:
    """The input lies where another rank's share goes to."""
    output = torch.zeros(length * dist.get_world_size(), dtype=dtype)
    output[:length] = any_bits(length, dtype)
    source = output[:length] if dist.get_backend(current) == "wiresum" else output[:length].clone()
    copied(dist.all_gather_into_tensor(output, source, current, async_op=True))
    return output


def columns(length: int, dtype: torch.dtype) -> torch.Tensor:
    """Neither input nor outputs are contiguous: in memory they are rows."""
    source = any_bits(2 * length, dtype).reshape(2, -1).t()
    outputs = [torch.zeros(2, length, dtype=dtype).t() for _ in range(dist.get_world_size())]
    if dist.get_backend(current) == "wiresum":
        copied(dist.all_gather(outputs, source, current, async_op=True))
        return torch.cat(outputs)
    plain = [output.contiguous() for output in outputs]
    dist.all_gather(plain, source.contiguous(), current)
    return torch.cat(plain)


def listed(length: int, dtype: torch.dtype) -> torch.Tensor:
    outputs = [torch.empty(length, dtype=dtype) for _ in range(dist.get_world_size())]
    copied(dist.all_gather(outputs, any_bits(length, dtype), current, async_op=True))
    return torch.cat(outputs)


def listed_in_one(length: int, dtype: torch.dtype) -> torch.Tensor:
    """Outputs that are one tensor, and an input that is one of them."""
    whole = torch.zeros(length * dist.get_world_size(), dtype=dtype)
    outputs = list(whole.chunk(dist.get_world_size()))
    own = outputs[dist.get_rank()].copy_(any_bits(length, dtype))
    copied(dist.all_gather(outputs, own, current, async_op=True))
    return whole


def coalesced(length: int, dtype: torch.dtype) -> torch.Tensor:
    """Several tensors in one collective, one of them empty."""
    owns = [any_bits(length, dtype), any_bits(0, dtype), any_bits(3, dtype)]
    outputs = [torch.empty(own.numel() * dist.get_world_size(), dtype=dtype) for own in owns]
    copied(current.all_gather_single_coalesced(outputs, owns, AllgatherOptions()))
    return torch.cat(outputs)


def coalesced_lists(length: int, dtype: torch.dtype) -> torch.Tensor:
    owns = [any_bits(3, dtype), any_bits(length, dtype)]
    outputs = [[torch.empty_like(own) for own in owns] for _ in range(dist.get_world_size())]
    copied(current.allgather_coalesced(outputs, owns, AllgatherOptions()))
    return torch.cat([output for of_rank in outputs for output in of_rank])


def managed(length: int, dtype: torch.dtype) -> torch.Tensor:
    """As programs write it."""
    owns = [any_bits(length, dtype), any_bits(5, dtype)]
    outputs = [torch.empty(own.numel() * dist.get_world_size(), dtype=dtype) for own in owns]
    with dist._coalescing_manager(current, async_ops=True) as manager:  # type: ignore[attr-defined]
        for output, own in zip(outputs, owns, strict=True):
            dist.all_gather_into_tensor(output, own, current)
    manager.wait()
    return torch.cat(outputs)


def from_a_root(length: int, dtype: torch.dtype) -> torch.Tensor:
    tensor = any_bits(length, dtype)
    copied(dist.broadcast(tensor, ROOT, current, async_op=True))
    return tensor


def from_a_root_by_columns(length: int, dtype: torch.dtype) -> torch.Tensor:
    tensor = any_bits(2 * length, dtype).reshape(2, -1).t()
    if dist.get_backend(current) == "wiresum":
        copied(dist.broadcast(tensor, ROOT, current, async_op=True))
        return tensor
    plain = tensor.contiguous()
    dist.broadcast(plain, ROOT, current)
    return plain


FORMS: tuple[Callable[..., torch.Tensor], ...] = (
    single, in_place, from_the_first_place, columns, listed, listed_in_one, coalesced, coalesced_lists, managed,
    from_a_root, from_a_root_by_columns,
)  # fmt: skip


def results(form: str, group: Any) -> Iterator[torch.Tensor]:
    global current  # noqa: PLW0603 – a rank's process runs one check at a time
    current = group
    for length in LENGTHS:
        for dtype in DTYPES:
            yield globals()[form](length, dtype).contiguous().view(-1).view(torch.uint8)


def compare(form: str) -> tuple[int, int]:
    """How many results have Gloo's bits, and how many collectives the network has copied for them."""
    return beside_gloo.compare(partial(results, form), "copied")


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.__name__)
def test_copies_are_gloos_and_come_from_the_network(copying: World, form: Callable[..., torch.Tensor]) -> None:
    compared = len(LENGTHS) * len(DTYPES)
    assert copying.run(compare, form.__name__) == [(compared, compared)] * copying.size


def scattered_and_reduced() -> list[bool]:
    """Whether a part has the bits that an all-reduce gives it, for values that every sum rounds."""
    rank, size = dist.get_rank(), dist.get_world_size()
    alike = []
    for dtype in (torch.float32, torch.float16, torch.bfloat16):
        for op in (dist.ReduceOp.SUM, dist.ReduceOp.AVG):
            generator = torch.Generator().manual_seed(rank)
            whole = torch.randn(size * 5003, generator=generator).to(dtype)
            part = torch.empty(5003, dtype=dtype)
            dist.reduce_scatter_tensor(part, whole, op)
            dist.all_reduce(whole, op)
            alike.append(torch.equal(part, whole[rank * 5003 : (rank + 1) * 5003]))
    return alike


def test_parts_have_the_bits_of_an_all_reduce(copying: World) -> None:
    assert copying.run(scattered_and_reduced) == [[True] * 6] * copying.size


def all_at_once() -> int:
    """Sums, parts and copies under way together, each of its own length; how many are right."""
    rank, size = dist.get_rank(), dist.get_world_size()
    begun = []
    for n in range(1, 11):
        mine, everyone = torch.full((997 * n,), rank), torch.empty(size * 997 * n, dtype=torch.int64)
        ones, part = torch.ones(size * 997 * n), torch.empty(997 * n)
        begun += [
            (dist.all_gather_into_tensor(everyone, mine, async_op=True), everyone,
             torch.arange(size).repeat_interleave(997 * n)),
            (dist.reduce_scatter_tensor(part, ones, async_op=True), part, torch.full_like(part, size)),
            (dist.all_reduce(ones.clone().mul_(n), async_op=True), mine, torch.full_like(mine, rank)),
        ]  # fmt: skip
    for work, *_ in begun:
        work.wait()
    return sum(torch.equal(result, expected) for _, result, expected in begun)


def test_many_collectives_at_once(copying: World) -> None:
    assert copying.run(all_at_once) == [30] * copying.size


def objects() -> list[Any]:
    everyone: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(everyone, {"rank": dist.get_rank()})
    told = [f"from {dist.get_rank()}"]
    dist.broadcast_object_list(told, src=ROOT)
    return [*everyone, *told]


def test_objects_are_copied(copying: World) -> None:
    expected = [*({"rank": rank} for rank in range(copying.size)), f"from {ROOT}"]
    assert copying.run(objects) == [expected] * copying.size


def of_other_forms() -> list[Reason]:
    """What is not copied, although the plan has copies: what holds nothing at all, and what little a root gathers."""
    rank, size = dist.get_rank(), dist.get_world_size()
    empty = dist.broadcast(torch.empty(0), 0, async_op=True)
    works = [empty]
    gathered = [torch.empty(2) for _ in range(size)] if rank == 0 else None
    works.append(dist.gather(torch.ones(2), gathered, dst=0, async_op=True))
    works.append(dist.all_to_all_single(torch.empty(size), torch.ones(size), async_op=True))
    for work in works:
        work.wait()
    return [explain(work) for work in works]


def test_other_forms_are_not_copied(copying: World) -> None:
    expected = [Reason.SHARED, Reason.SHARED, Reason.COLLECTIVE]
    assert copying.run(of_other_forms) == [expected] * copying.size


def without_copies() -> Reason:
    work = dist.broadcast(torch.ones(5000), 0, async_op=True)
    work.wait()
    return explain(work)


def test_a_plan_without_copies_leaves_them_to_gloo(networked: World) -> None:
    assert networked.run(without_copies) == [Reason.COLLECTIVE] * networked.size


def of_different_lengths() -> None:
    dist.broadcast(torch.ones(100 + dist.get_rank()), ROOT)


def test_ranks_that_differ_are_told_what_each_passed(copies_of_its_own: World) -> None:
    for failure in copies_of_its_own.try_to_run(of_different_lengths):
        assert isinstance(failure, Failure)
        assert failure.kind == "MismatchError"
        assert f"rank 2: broadcast from rank {ROOT} of 408 bytes" in failure.message


@pytest.fixture
def unserved(tmp_path: Path) -> Iterator[World]:
    """A world whose engine refuses what a test wants it to."""
    file = tmp_path / "plan.json"
    plan(star(workers=3), Job(copies=True), PlanOptions(engine="udp")).write(file)
    with World(3, {"WIRESUM_PLAN": str(file), "WIRESUM_MIN_ELEMENTS": "1"}, prepare=mock_engine.install) as world:
        yield world


def refused() -> list[Reason]:
    rank, size = dist.get_rank(), dist.get_world_size()
    MockEngine.current.faults += [Fault(NOT_SERVED)] * 2
    told, everyone = torch.tensor([rank == ROOT] * 9), torch.zeros(size * 9, dtype=torch.bfloat16)
    own = everyone[9 * rank : 9 * (rank + 1)].fill_(rank)
    works = [dist.broadcast(told, ROOT, async_op=True), dist.all_gather_into_tensor(everyone, own, async_op=True)]
    for work in works:
        work.wait()
    assert told.all()
    assert everyone.tolist() == [float(other) for other in range(size) for _ in range(9)]
    return [explain(work) for work in works]


def test_gloo_copies_for_a_job_without_a_turn(unserved: World) -> None:
    assert unserved.run(refused) == [[Reason.NOT_SERVED] * 2] * unserved.size
