"""Every collective has Gloo's results: those that the network does not take because Gloo does them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch.distributed as dist
from world import World

import torch
from wiresum.torch import Reason, explain

FLOATS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
INTEGERS = (torch.int64, torch.int32, torch.int8, torch.uint8)
ARITHMETIC = ("SUM", "PRODUCT", "MIN", "MAX")
BITWISE = ("BAND", "BOR", "BXOR")
ELEMENTS = 6


def share(dtype: torch.dtype, elements: int = ELEMENTS) -> torch.Tensor:
    """Small whole numbers, exact in every type."""
    return (torch.arange(elements) % 5 + dist.get_rank() % 2 + 1).to(dtype)


def all_reduce(group: Any) -> Iterator[Any]:
    for dtype in FLOATS + INTEGERS:
        averages = ("AVG",) if dtype.is_floating_point else ()
        bitwise = () if dtype.is_floating_point else BITWISE
        for op in ARITHMETIC + averages + bitwise:
            tensor = share(dtype)
            dist.all_reduce(tensor, op=getattr(dist.ReduceOp, op), group=group)
            yield tensor
    flags = torch.tensor([dist.get_rank() == 0, True, False])
    dist.all_reduce(flags, op=dist.ReduceOp.BOR, group=group)
    yield flags


def all_reduce_of_odd_tensors(group: Any) -> Iterator[Any]:
    sparse = torch.sparse_coo_tensor([[dist.get_rank()]], [1.0], (dist.get_world_size(group),))
    dist.all_reduce(sparse, group=group)
    yield sparse.to_dense()
    for elements in (0, 1):
        tensor = share(torch.float32, elements)
        dist.all_reduce(tensor, group=group)
        yield tensor
    dense = torch.view_as_complex(share(torch.float32).reshape(-1, 2).clone())
    dist.all_reduce(dense, group=group)
    yield torch.view_as_real(dense)
    expanded = torch.full((1,), 2.0).expand(1)
    dist.all_reduce(expanded, group=group)
    yield expanded


def unsupported(group: Any) -> Iterator[Any]:
    for dtype in (torch.int16, torch.complex128):
        with pytest.raises((RuntimeError, ValueError)) as caught:
            dist.all_reduce(share(dtype), op=dist.ReduceOp.MAX, group=group)
        yield [type(caught.value), str(caught.value)]


def broadcast(group: Any) -> Iterator[Any]:
    for dtype in (*FLOATS, *INTEGERS):
        tensor = share(dtype)
        dist.broadcast(tensor, src=1, group=group)
        yield tensor


def reduce(group: Any) -> Iterator[Any]:
    for op in (*ARITHMETIC, "AVG"):
        tensor = share(torch.float32)
        dist.reduce(tensor, dst=0, op=getattr(dist.ReduceOp, op), group=group)
        yield tensor if dist.get_rank() == 0 else None


def all_gather(group: Any) -> Iterator[Any]:
    size = dist.get_world_size(group)
    for dtype in (torch.float32, torch.int64, torch.uint8):
        listed = [torch.empty(ELEMENTS, dtype=dtype) for _ in range(size)]
        dist.all_gather(listed, share(dtype), group=group)
        yield listed
        flat = torch.empty(size * ELEMENTS, dtype=dtype)
        dist.all_gather_into_tensor(flat, share(dtype), group=group)
        yield flat


def gather_and_scatter(group: Any) -> Iterator[Any]:
    size, root = dist.get_world_size(group), dist.get_rank(group) == 0
    gathered = [torch.empty(ELEMENTS) for _ in range(size)] if root else None
    dist.gather(share(torch.float32), gathered, dst=0, group=group)
    yield gathered
    received = torch.empty(ELEMENTS)
    dist.scatter(
        received, [torch.full((ELEMENTS,), float(i)) for i in range(size)] if root else None, src=0, group=group
    )
    yield received


def reduce_scatter(group: Any) -> Iterator[Any]:
    size = dist.get_world_size(group)
    for op in ("SUM", "AVG", "MAX"):
        output = torch.empty(ELEMENTS)
        shares = [share(torch.float32) + i for i in range(size)]
        dist.reduce_scatter(output, shares, op=getattr(dist.ReduceOp, op), group=group)
        yield output.clone()
        dist.reduce_scatter_tensor(output, torch.cat(shares), op=getattr(dist.ReduceOp, op), group=group)
        yield output


def all_to_all(group: Any) -> Iterator[Any]:
    size, rank = dist.get_world_size(group), dist.get_rank(group)
    output = torch.empty(size * 2)
    dist.all_to_all_single(output, torch.arange(size * 2.0) + 10 * rank, group=group)
    yield output
    uneven = torch.empty(sum(1 + rank for _ in range(size)))
    dist.all_to_all_single(
        uneven, torch.arange(float(sum(1 + i for i in range(size)))), [1 + rank] * size, [1 + i for i in range(size)],
        group=group,
    )  # fmt: skip
    yield uneven
    received = [torch.empty(3) for _ in range(size)]
    dist.all_to_all(received, [torch.full((3,), float(10 * rank + i)) for i in range(size)], group=group)
    yield received


def point_to_point(group: Any) -> Iterator[Any]:
    size, rank = dist.get_world_size(group), dist.get_rank(group)
    received = torch.empty(2)
    send = dist.isend(torch.full((2,), float(rank)), dst=(rank + 1) % size, group=group)
    dist.recv(received, src=(rank - 1) % size, group=group)
    send.wait()
    yield received
    anyone = torch.empty(2)
    send = dist.isend(torch.full((2,), float(rank)), dst=(rank + 1) % size, group=group, tag=7)
    source = dist.recv(anyone, group=group, tag=7)
    send.wait()
    yield [anyone, torch.tensor(source)]
    both = [
        dist.P2POp(dist.isend, torch.full((2,), float(rank)), (rank + 1) % size, group),
        dist.P2POp(dist.irecv, received, (rank - 1) % size, group),
    ]
    for work in dist.batch_isend_irecv(both):
        work.wait()
    yield received


def coalesced(group: Any) -> Iterator[Any]:
    tensors = [share(torch.int64), share(torch.int64, 3)]
    dist.all_reduce_coalesced(tensors, group=group)
    yield tensors
    with dist._coalescing_manager(group=group):
        first, second = share(torch.float32), share(torch.float32, 4)
        dist.all_reduce(first, group=group)
        dist.all_reduce(second, group=group)
    yield [first, second]


def objects(group: Any) -> Iterator[Any]:
    size, rank = dist.get_world_size(group), dist.get_rank(group)
    everyone: list[Any] = [None] * size
    dist.all_gather_object(everyone, {"rank": rank}, group=group)
    yield everyone
    told = [f"from {rank}"]
    dist.broadcast_object_list(told, src=2, group=group)
    yield told
    gathered = [None] * size if rank == 0 else None
    dist.gather_object(rank, gathered, dst=0, group=group)
    yield gathered
    handed: list[Any] = [None]
    dist.scatter_object_list(handed, [f"for {i}" for i in range(size)] if rank == 0 else None, src=0, group=group)
    yield handed


def barriers(group: Any) -> Iterator[Any]:
    dist.barrier(group=group)
    dist.monitored_barrier(group=group)
    yield None


FAMILIES = (
    all_reduce, all_reduce_of_odd_tensors, unsupported, broadcast, reduce, all_gather, gather_and_scatter,
    reduce_scatter, all_to_all, point_to_point, coalesced, objects, barriers,
)  # fmt: skip


def compare(name: str) -> int:
    """Runs a family in a group of this backend and in one of Gloo; returns how many results were compared."""
    family: Callable[[Any], Iterator[Any]] = globals()[name]
    gloo = dist.new_group(backend="gloo")
    compared = 0
    for ours, theirs in zip(family(dist.group.WORLD), family(gloo), strict=True):
        assert same(ours, theirs), (ours, theirs)
        compared += 1
    dist.destroy_process_group(gloo)
    return compared


def same(ours: Any, theirs: Any) -> bool:
    if torch.is_tensor(ours):
        return torch.equal(ours, theirs)
    if isinstance(ours, list):
        return len(ours) == len(theirs) and all(map(same, ours, theirs))
    return bool(ours == theirs)


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.__name__)
def test_collectives_have_gloos_results(mocked: World, family: Callable[[Any], Iterator[Any]]) -> None:
    assert all(count > 0 for count in mocked.run(compare, family.__name__))


def reasons() -> dict[str, str]:
    def reason(work: Any) -> str:
        work.wait()
        return explain(work)

    def of_all_reduce(tensor: torch.Tensor, op: str = "SUM") -> str:
        return reason(dist.all_reduce(tensor, op=getattr(dist.ReduceOp, op), async_op=True))

    return {
        "summed": of_all_reduce(torch.ones(4)),
        "element_type": of_all_reduce(torch.ones(4, dtype=torch.float64)),
        "operation": of_all_reduce(torch.ones(4), "MAX"),
        "too_small": of_all_reduce(torch.ones(3)),
        "layout": of_all_reduce(torch.ones(1).expand(4)),
        "reduce": reason(dist.reduce(torch.ones(4), dst=0, async_op=True)),
        "reduce_scatter": reason(dist.reduce_scatter_tensor(torch.empty(2), torch.ones(6), async_op=True)),
        "collective": reason(dist.broadcast(torch.ones(4), src=0, async_op=True)),
    }


def test_each_collective_says_where_it_was_summed_and_why(mocked: World) -> None:
    for answers in mocked.run(reasons):
        expected = {name: Reason.SUMMED if "reduce" in name else Reason(name) for name in answers}
        assert answers == expected
