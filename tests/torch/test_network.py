"""Sums that really travel: accuracy, sizes, order, faults of peers and aggregators."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch.distributed as dist
from aggregator import aggregator
from torch.nn.parallel import DistributedDataParallel
from world import DEFAULT_GROUP_TIMEOUT_S, Failure, World, create_group

import torch
from wiresum import errors
from wiresum.deploy.deployment import Deployment
from wiresum.plan.job import Job
from wiresum.torch import Reason, explain, report

SIZES = (1, 2, 351, 352, 353, 1000, 100_003)
"""Elements: around one packet, and many packets with a remainder."""
LANE_BITS = {torch.float32: 31, torch.float16: 15, torch.bfloat16: 15}
"""Magnitude of a lane, which is as wide as the element."""
FAULT_TIMEOUT_S = 3.0
"""The group's timeout where a peer is missing."""


def share(rank: int, elements: int, dtype: torch.dtype) -> torch.Tensor:
    """A rank's values, over several orders of magnitude."""
    generator = torch.Generator().manual_seed(1000 * rank + elements)
    scale = torch.logspace(-3, 3, elements)
    return (torch.empty(elements).uniform_(-1, 1, generator=generator) * scale).to(dtype)


def sums(dtype: torch.dtype, op: str) -> list[list[float]]:
    results = []
    for elements in SIZES:
        tensor = share(dist.get_rank(), elements, dtype)
        work = dist.all_reduce(tensor, op=getattr(dist.ReduceOp, op), async_op=True)
        work.wait()
        assert explain(work) is Reason.SUMMED
        results.append(tensor.double().tolist())
    return results


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("op", ["SUM", "AVG"])
def test_sums_are_equal_on_all_ranks_and_within_the_bound(networked: World, dtype: torch.dtype, op: str) -> None:
    results = networked.run(sums, dtype, op)
    assert results.count(results[0]) == networked.size  # bit for bit
    for elements, result in zip(SIZES, results[0], strict=True):
        shares = [share(rank, elements, dtype).double() for rank in range(networked.size)]
        expected = sum(shares) / (networked.size if op == "AVG" else 1)
        largest = max(float(each.abs().max()) for each in shares)
        room = 2.0 ** math.ceil(math.log2(networked.size))  # for the sum, in each lane
        lanes = networked.size * room * largest * 2.0 ** -LANE_BITS[dtype]  # the codec's bound
        tolerance = torch.finfo(dtype).eps
        torch.testing.assert_close(torch.tensor(result).double(), expected, atol=lanes, rtol=tolerance)


def in_flight() -> None:
    """Tensors of all types, and so of both widths of lanes, whose sums are exact in each."""
    size, rank, types = dist.get_world_size(), dist.get_rank(), list(LANE_BITS)
    tensors = [torch.full((1 + 997 * n,), float(n * (rank + 1)), dtype=types[n % len(types)]) for n in range(40)]
    works = [dist.all_reduce(tensor, async_op=True) for tensor in tensors]
    for n, (work, tensor) in enumerate(zip(works, tensors, strict=True)):
        work.wait()
        torch.testing.assert_close(tensor, torch.full_like(tensor, float(n * sum(range(1, size + 1)))))


def test_many_collectives_at_once(networked: World) -> None:
    networked.run(in_flight)


def not_finite() -> None:
    for value in (math.nan, math.inf):
        tensor = torch.ones(5000)
        tensor[4321] = value if dist.get_rank() == 1 else 1.0
        before = torch.ones(100)
        works = [dist.all_reduce(each, async_op=True) for each in (before, tensor)]
        after = torch.ones(100)
        works.append(dist.all_reduce(after, async_op=True))
        for work in works:
            work.wait()
        assert [explain(work) for work in works] == [Reason.SUMMED, Reason.NOT_FINITE, Reason.SUMMED]
        assert tensor[4321].isnan() if math.isnan(value) else tensor[4321] == math.inf
        assert tensor[0] == before[0] == after[0] == dist.get_world_size()


def test_what_is_not_finite_takes_the_other_path_on_every_rank(networked: World) -> None:
    networked.run(not_finite)


def has_statistics() -> bool:
    return bool(report().groups[0].engine) and "engine, where not 0: " in str(report())


def test_the_report_has_the_engines_statistics(networked: World) -> None:
    assert all(networked.run(has_statistics))


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Deployment]:
    with aggregator(tmp_path, 2) as running:
        yield running


def pair(node: Deployment, timeout_s: float = FAULT_TIMEOUT_S) -> World:
    environment = {"WIRESUM_PLAN": str(node.plan_file), "WIRESUM_MIN_ELEMENTS": "1"}
    return World(2, environment, timeout_s=timeout_s)


def different_shapes() -> tuple[str, str]:
    with pytest.raises(errors.MismatchError) as first:
        dist.all_reduce(torch.ones(1000 + dist.get_rank()))
    with pytest.raises(errors.CollectiveError) as second:
        dist.all_reduce(torch.ones(10))
    return str(first.value), str(second.value)


def different_kinds() -> str:
    tensor = torch.ones(1000)
    if dist.get_rank() == 0:
        work = dist.all_reduce(tensor, async_op=True)
    else:
        work = dist.reduce_scatter_tensor(torch.empty(500), tensor, async_op=True)
    with pytest.raises(errors.MismatchError) as caught:
        work.wait()
    return str(caught.value)


def sum_of_ones() -> float:
    tensor = torch.ones(10_000)
    dist.all_reduce(tensor)
    return tensor[-1].item()


def trained() -> tuple[Reason, float]:
    """How a step's gradient was summed, and how far it is from the mean over the ranks."""
    model = DistributedDataParallel(torch.nn.Linear(3000, 20))
    inputs = [torch.full((4, 3000), float(rank + 1)) for rank in range(dist.get_world_size())]
    model(inputs[dist.get_rank()]).sum().backward()
    mean = torch.stack(inputs).mean(dim=0).sum(dim=0).expand(20, -1)
    gradient = model.module.weight.grad
    assert gradient is not None
    tensor = torch.ones(5000)
    work = dist.all_reduce(tensor, async_op=True)
    work.wait()
    return explain(work), float((gradient - mean).abs().max())


def test_training_over_tcp(tmp_path: Path) -> None:
    with aggregator(tmp_path, 2, engine="tcp") as node, pair(node, DEFAULT_GROUP_TIMEOUT_S) as world:
        for reason, error in world.run(trained):
            assert reason == Reason.SUMMED
            assert error < 1e-4


def growing() -> list[Reason]:
    reasons = []
    for scale in (1.0, 2.0, 1e6, 1e6, 1e6):
        tensor = torch.full((5000,), scale)
        work = dist.all_reduce(tensor, async_op=True)
        work.wait()
        torch.testing.assert_close(tensor, torch.full_like(tensor, 2 * scale))
        reasons.append(explain(work))
    return reasons


def test_what_was_not_foreseen_takes_the_other_path_on_every_rank(tmp_path: Path) -> None:
    job = Job(values_per_packet=352, exponents="expected")
    with aggregator(tmp_path, 2, job) as node, pair(node, DEFAULT_GROUP_TIMEOUT_S) as world:
        reasons = world.run(growing)
    summed = Reason.SUMMED
    assert reasons == [[summed, summed, Reason.UNFORESEEN, summed, summed]] * 2


def start_again() -> None:
    dist.destroy_process_group()
    create_group()


def test_different_shapes_end_the_job_and_a_new_group_starts_another(node: Deployment) -> None:
    with pair(node) as world:
        for first, second in world.run(different_shapes):
            assert "1000" in first
            assert "1001" in first
            assert second
        world.run(start_again)
        assert world.run(sum_of_ones) == [2.0, 2.0]


def test_different_kinds_are_named(node: Deployment) -> None:
    with pair(node) as world:
        for message in world.run(different_kinds):
            assert "rank 0: all_reduce of 1000 elements" in message
            assert "rank 1: reduce_scatter of 1000 elements" in message


def test_without_heartbeats_a_dead_worker_is_named_within_the_timeout(node: Deployment) -> None:
    world = pair(node)
    world.environment["WIRESUM_DEAD_AFTER"] = "0"
    with world:
        assert world.run(sum_of_ones) == [2.0, 2.0]
        world.processes[1].kill()
        (failure,) = world.try_to_run(sum_of_ones, ranks=[0])
        assert isinstance(failure, Failure)
        assert failure.kind == "CollectiveTimeoutError"
        assert "w1" in failure.message


def test_a_dead_aggregator_is_named_within_the_timeout(node: Deployment) -> None:
    world = pair(node)
    world.environment["WIRESUM_REPLAY"] = "0"
    with world:
        assert world.run(sum_of_ones) == [2.0, 2.0]
        node.daemon("switch").kill()
        for failure in world.try_to_run(sum_of_ones):
            assert isinstance(failure, Failure)
            assert failure.kind == "CollectiveTimeoutError"
            assert node.plan.nodes[0].address in failure.message


def by_address(address: str, secret: str) -> float:
    del os.environ["WIRESUM_PLAN"]
    os.environ.update(WIRESUM_AGGREGATOR=address, WIRESUM_SECRET=secret, WIRESUM_VALUES_PER_PACKET="352")
    create_group()
    return sum_of_ones()


def test_an_address_and_a_secret_are_enough(node: Deployment) -> None:
    world = pair(node)
    world.create_group = False
    with world:
        assert world.run(by_address, node.plan.nodes[0].address, node.plan.job.secret) == [2.0, 2.0]
