"""Tensors on a GPU through the network: the bits of the same values on the host, streams that wait, and errors."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch.distributed as dist
from aggregator import aggregator
from torch.nn.parallel import DistributedDataParallel
from world import World, store

import torch
from torch import nn
from wiresum.plan.job import Job
from wiresum.torch import Reason, explain, report

pytestmark = pytest.mark.needs("cuda")

RANKS, ROOT = 2, 1
LENGTHS = (1, 352, 5003, 300_001)
FLOATS = (torch.float32, torch.float16, torch.bfloat16)
PATIENCE_S = 60.0
"""Seconds for a stream that was held to go on; what hangs is found before the tests' own limit."""
SHORT_S = 4.0
"""Timeout of the group whose node is killed."""
BUCKET_MB = 0.02

Place = Callable[[torch.Tensor], torch.Tensor]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """Ranks that share one GPU, over a node with copies."""
    job = Job(values_per_packet=352, copies=True)
    with aggregator(tmp_path_factory.mktemp("cuda"), RANKS, job) as node:
        environment = {"WIRESUM_PLAN": str(node.plan_file), "WIRESUM_MIN_ELEMENTS": "1"}
        with World(RANKS, environment) as made:
            yield made


def numbers(length: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Every rank's own."""
    generator = torch.Generator().manual_seed(1000 * length + dist.get_rank())
    return torch.randn(length, generator=generator).to(dtype)


def gpu(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.cuda()


def host(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.clone()


def all_reduced(place: Place, values: torch.Tensor, op: Any) -> torch.Tensor:
    tensor = place(values)
    dist.all_reduce(tensor, op)
    return tensor


def reduced(place: Place, values: torch.Tensor, op: Any) -> torch.Tensor:
    tensor = place(values)
    dist.reduce(tensor, ROOT, op)
    return tensor


def scattered(place: Place, values: torch.Tensor, op: Any) -> torch.Tensor:
    whole = place(torch.cat([values, values * 3]))
    output = torch.full_like(whole[: len(values)], 7)
    dist.reduce_scatter_tensor(output, whole, op)
    return output


def scattered_from_list(place: Place, values: torch.Tensor, op: Any) -> torch.Tensor:
    parts = [place(values), place(values * 3)]
    output = torch.full_like(parts[0], 7)
    dist.reduce_scatter(output, parts, op)
    return output


def gathered(place: Place, values: torch.Tensor, _op: Any) -> torch.Tensor:
    shares = [torch.full_like(place(values), 7) for _ in range(RANKS)]
    dist.all_gather(shares, place(values))
    return torch.cat(shares)


def gathered_in_place(place: Place, values: torch.Tensor, _op: Any) -> torch.Tensor:
    output = torch.zeros(RANKS * len(values), dtype=values.dtype, device=place(values).device)
    own = output.narrow(0, dist.get_rank() * len(values), len(values))
    own.copy_(values)
    dist.all_gather_into_tensor(output, own)
    return output


def broadcast(place: Place, values: torch.Tensor, _op: Any) -> torch.Tensor:
    tensor = place(values)
    dist.broadcast(tensor, ROOT)
    return tensor


def strided(place: Place, values: torch.Tensor, op: Any) -> torch.Tensor:
    tensor = place(values.repeat(2, 1)).t()  # not contiguous
    dist.all_reduce(tensor, op)
    return tensor.contiguous()


COLLECTIVES = (
    all_reduced, reduced, scattered, scattered_from_list, gathered, gathered_in_place, broadcast, strided,
)  # fmt: skip


def on_both(name: str, dtype: torch.dtype) -> int:
    collective = globals()[name]
    before = report().groups[0].summed
    for length in LENGTHS:
        for op in (dist.ReduceOp.SUM, dist.ReduceOp.AVG):
            values = numbers(length, dtype)
            expected = collective(host, values, op)
            found = collective(gpu, values, op)
            assert found.is_cuda
            assert torch.equal(found.cpu().view(torch.uint8), expected.contiguous().view(torch.uint8)), (name, length)
    return report().groups[0].summed - before


@pytest.mark.parametrize("collective", [each.__name__ for each in COLLECTIVES])
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_a_gpu_gets_the_bits_of_the_host(world: World, collective: str, dtype: torch.dtype) -> None:
    in_network = world.run(on_both, collective, dtype)
    if collective not in {"gathered", "gathered_in_place", "broadcast"}:
        assert in_network == [2 * 2 * len(LENGTHS)] * RANKS


def small() -> None:
    for dtype, op in ((torch.int64, dist.ReduceOp.MAX), (torch.float64, dist.ReduceOp.PRODUCT)):
        mine = torch.arange(1, 6, dtype=dtype) + dist.get_rank()
        expected, tensor = mine.clone(), mine.cuda()
        dist.all_reduce(expected, op)
        work = dist.all_reduce(tensor, op, async_op=True)
        work.wait()
        assert torch.equal(tensor.cpu(), expected)
        assert explain(work) is Reason.SHARED


def test_small_ones_go_in_the_packets_that_open_a_collective(world: World) -> None:
    world.run(small)


def left_to_gloo() -> tuple[Reason, float]:
    tensor = torch.full((5000,), 1.5, dtype=torch.float64, device="cuda")
    work = dist.all_reduce(tensor, async_op=True)
    work.wait()
    return explain(work), tensor.sum().item()


def test_what_the_network_does_not_take_gloo_does(world: World) -> None:
    assert world.run(left_to_gloo) == [(Reason.ELEMENT_TYPE, 15_000.0)] * RANKS


def not_finite() -> Reason:
    tensor = numbers(5000).cuda()
    tensor[7] = float("inf")
    work = dist.all_reduce(tensor, async_op=True)
    work.wait()
    assert tensor[7].item() == float("inf")
    assert tensor[8].isfinite().item()
    return explain(work)


def test_what_is_not_finite_stays_so(world: World) -> None:
    assert world.run(not_finite) == [Reason.NOT_FINITE] * RANKS


def waits_before_the_other_begins() -> bool:
    """Whether the collective was under way when wait() had returned: the other rank submits only then."""
    tensor = torch.ones(5000, device="cuda")
    torch.cuda.synchronize()
    if dist.get_rank() == ROOT:
        store().get("rank 0 has waited")
    work = dist.all_reduce(tensor, async_op=True)
    work.wait()
    under_way = not work.is_completed()
    doubled = tensor * 2  # behind the sum on the stream
    if dist.get_rank() != ROOT:
        store().set("rank 0 has waited", "")
    assert doubled.cpu().eq(2 * RANKS).all()
    assert work.wait(timeout=_seconds(PATIENCE_S))
    assert work.is_completed()
    return under_way


def _seconds(limit: float) -> Any:
    from datetime import timedelta

    return timedelta(seconds=limit)


def test_wait_holds_the_stream_and_not_the_host(world: World) -> None:
    assert world.run(waits_before_the_other_begins)[0]


def from_many_streams() -> None:
    """Values that kernels are still making, on streams of their own, and tensors that go before their sums come."""
    streams = [torch.cuda.Stream() for _ in range(12)]  # type: ignore[no-untyped-call]
    factors = torch.randn(1500, 1500, device="cuda")
    results = []
    for index, stream in enumerate(streams):
        with torch.cuda.stream(stream):
            product = factors @ factors
            values = torch.full((100_000,), float(index + 1), device="cuda") + product[0, 0] * 0
            dist.all_reduce(values)
            results.append(values.sum())
            del values
    torch.cuda.synchronize()
    assert [result.item() for result in results] == [100_000.0 * RANKS * (i + 1) for i in range(len(streams))]


def test_every_stream_waits_for_its_own(world: World) -> None:
    world.run(from_many_streams)


def gradients(hook: bool) -> list[torch.Tensor]:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10)).cuda()
    wrapped = DistributedDataParallel(model, bucket_cap_mb=BUCKET_MB)
    if hook:
        wrapped.register_comm_hook(None, lambda _, bucket: through_the_host(bucket))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    generator = torch.Generator().manual_seed(dist.get_rank())
    for _ in range(4):
        loss = wrapped(torch.randn(8, 64, generator=generator).cuda()).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return [parameter.detach().cpu() for parameter in model.parameters()]


def through_the_host(bucket: Any) -> Any:
    """Sums a bucket as CPU tensors."""
    values = (bucket.buffer() / RANKS).cpu()
    dist.all_reduce(values)
    done: torch.futures.Future[torch.Tensor] = torch.futures.Future()
    done.set_result(values.cuda())
    return done


def trained() -> tuple[bool, list[float], int]:
    before = report().groups[0].summed
    ours = gradients(hook=False)
    summed = report().groups[0].summed - before
    same = all(torch.equal(a, b) for a, b in zip(ours, gradients(hook=True), strict=True))
    return same, [parameter.double().sum().item() for parameter in ours], summed


def test_ddp_trains_with_the_bits_of_sums_on_the_host(world: World) -> None:
    results = world.run(trained)
    assert all(same and summed >= 4 for same, _, summed in results)
    assert results[0][1] == results[1][1]  # ranks never drift apart


def after_a_death() -> tuple[float, str, str]:
    """Seconds of the call and of wait(), the error of the handle, and that of the next call."""
    tensor = torch.ones(200_000, device="cuda")
    began = time.monotonic()
    work = dist.all_reduce(tensor, async_op=True)
    work.wait()
    held = time.monotonic() - began
    assert tensor.isnan().all().item()  # synchronises, so the stream went on
    with pytest.raises(RuntimeError) as of_the_handle:
        work.wait()
    with pytest.raises(RuntimeError) as of_the_next:
        dist.all_reduce(torch.ones(10_000, device="cuda"))
    return held, str(of_the_handle.value), str(of_the_next.value)


def summed_once() -> None:
    tensor = torch.ones(10_000, device="cuda")
    dist.all_reduce(tensor)
    assert tensor.eq(RANKS).all().item()


def test_a_failed_round_releases_the_stream_with_nan_and_raises_at_the_next_call(tmp_path: Path) -> None:
    with aggregator(tmp_path, RANKS) as node:
        environment = {"WIRESUM_PLAN": str(node.plan_file), "WIRESUM_MIN_ELEMENTS": "1", "WIRESUM_REPLAY": "0"}
        with World(RANKS, environment, timeout_s=SHORT_S) as world:
            world.run(summed_once)
            node.daemon("switch").kill()
            for held, of_the_handle, of_the_next in world.run(after_a_death):
                assert held < SHORT_S
                assert "all_reduce #1" in of_the_handle
                assert of_the_next == of_the_handle


def test_ranks_that_go_over_to_gloo_take_their_gpus_along(tmp_path: Path) -> None:
    with aggregator(tmp_path, RANKS) as node:
        environment = {"WIRESUM_PLAN": str(node.plan_file), "WIRESUM_MIN_ELEMENTS": "1"}
        with World(RANKS, environment) as world:
            world.run(summed_once)
            node.daemon("switch").kill()
            world.run(summed_once)
            world.run(summed_once)
