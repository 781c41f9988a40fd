"""Ranks with several threads: sums as with one, in every group, and reports that say so."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch.distributed as dist
from aggregator import aggregator
from world import World

import torch
from wiresum.plan.job import Job
from wiresum.torch import Reason, explain, report

SIZE = 4
THREADS = 3
LARGE = 300_000
"""Elements of a tensor that is cut for every thread."""
ROWS = [[0, 1], [2, 3]]


@pytest.fixture(scope="module")
def threaded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    job = Job(values_per_packet=352, copies=True, mesh=(2, 2), threads=THREADS)
    with aggregator(tmp_path_factory.mktemp("threads"), SIZE, job) as node:
        environment = {"WIRESUM_PLAN": str(node.plan_file), "WIRESUM_MIN_ELEMENTS": "1"}
        with World(SIZE, environment) as world:
            yield world


def counted(dtype: torch.dtype, elements: int) -> tuple[str, float, int]:
    """Where a sum was made, how far it is off, and by how many threads."""
    generator = torch.Generator().manual_seed(1 + dist.get_rank())
    tensor = torch.randn(elements, generator=generator).to(dtype)
    parts = [torch.randn(elements, generator=torch.Generator().manual_seed(1 + r)).to(dtype) for r in range(SIZE)]
    work = dist.all_reduce(tensor, async_op=True)
    work.wait()
    off = (tensor.double() - sum(part.double() for part in parts)).abs().max()
    return str(explain(work)), float(off), report().groups[0].engine["threads"]


@pytest.mark.parametrize("elements", [1, 1000, LARGE])
@pytest.mark.parametrize(("dtype", "most"), [(torch.float32, 1e-5), (torch.bfloat16, 0.1)], ids=["f32", "bf16"])
def test_threads_sum_what_one_would(threaded: World, dtype: torch.dtype, most: float, elements: int) -> None:
    for reason, off, threads in threaded.run(counted, dtype, elements):
        assert (reason, threads) == ("summed", THREADS)
        assert off < most


def broken(at: int) -> tuple[str, int, float]:
    tensor = torch.ones(LARGE)
    if dist.get_rank() == 1:
        tensor[at] = float("nan")
    work = dist.all_reduce(tensor, async_op=True)
    work.wait()
    return str(explain(work)), int(tensor.isnan().sum()), float(tensor.nanmean())


@pytest.mark.parametrize("at", [0, LARGE - 1])
def test_what_is_not_finite_stays_where_it_is(threaded: World, at: int) -> None:
    assert threaded.run(broken, at) == [("not_finite", 1, float(SIZE))] * SIZE


def every_kind() -> list[str]:
    rank = dist.get_rank()
    values = torch.arange(LARGE, dtype=torch.float32) % 100
    part = torch.empty(LARGE // SIZE)
    whole = torch.empty(LARGE)
    gathered, own_part = [torch.empty(LARGE) for _ in range(SIZE)], torch.empty(LARGE // SIZE)
    works = [
        dist.reduce_scatter_tensor(part, values + rank, async_op=True),
        dist.all_gather_into_tensor(whole, torch.full((LARGE // SIZE,), float(rank)), async_op=True),
        dist.reduce(reduced := values.clone(), 1, async_op=True),
        dist.broadcast(sent := torch.full((LARGE,), float(rank)), 2, async_op=True),
        dist.gather(torch.full((LARGE,), float(rank)), gathered if rank == 1 else None, 1, async_op=True),
        dist.scatter(own_part, list(values.chunk(SIZE)) if rank == 2 else None, 2, async_op=True),
    ]
    for work in works:
        work.wait()
    own = values[rank * LARGE // SIZE : (rank + 1) * LARGE // SIZE]
    torch.testing.assert_close(part, SIZE * own + sum(range(SIZE)))
    assert torch.equal(whole.view(SIZE, -1)[:, 0], torch.arange(float(SIZE)))
    if rank == 1:
        torch.testing.assert_close(reduced, SIZE * values)
        assert [float(one.mean()) for one in gathered] == list(range(SIZE))
    assert sent.min() == sent.max() == 2.0
    assert torch.equal(own_part, own)
    return [str(explain(work)) for work in works]


def test_collectives_that_are_not_cut_take_turns(threaded: World) -> None:
    assert threaded.run(every_kind) == [["summed", "copied", "summed", *["copied"] * 3]] * SIZE


def in_rows() -> tuple[str, int]:
    groups = [dist.new_group(ranks) for ranks in ROWS]
    mine = groups[dist.get_rank() // 2]
    tensor = torch.full((LARGE,), float(1 + dist.get_rank()))
    work = dist.all_reduce(tensor, group=mine, async_op=True)
    work.wait()
    assert tensor.min() == tensor.max() == sum(1.0 + rank for rank in ROWS[dist.get_rank() // 2])
    threads = int(report().groups[-1].engine["threads"])
    dist.destroy_process_group(mine)
    return str(explain(work)), threads


def test_groups_have_threads_of_their_own(threaded: World) -> None:
    assert threaded.run(in_rows) == [(Reason.SUMMED, THREADS)] * SIZE
