"""Jobs whose only aggregator dies and comes back: no collective is lost, and all ranks go over to Gloo and return."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch.distributed as dist
from aggregator import aggregator, kill_and_revive
from torch.nn.parallel import DistributedDataParallel
from world import Failure, World

import torch
from wiresum.deploy.deployment import Deployment
from wiresum.deploy.hosts import ThisHost, on_loopback
from wiresum.plan.exchanges import servers_of
from wiresum.plan.job import Job
from wiresum.plan.options import PlanOptions
from wiresum.planners import plan
from wiresum.topology.generators.xagg import xagg
from wiresum.torch import eight_bits, explain, report

RANKS = 3
ELEMENTS = 20_000
BACK_S = 30.0
"""Seconds in which ranks are back in the network, on a busy machine."""


@pytest.fixture
def node(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Deployment]:
    job = Job(values_per_packet=352, threads=getattr(request, "param", 1))
    with aggregator(tmp_path, RANKS, job) as running:
        yield running


by_threads = pytest.mark.parametrize("node", [1, 3], indirect=True, ids=lambda threads: f"{threads} threads")


def three(node: Deployment, **settings: str) -> World:
    environment = {"WIRESUM_PLAN": str(node.plan_file), "WIRESUM_MIN_ELEMENTS": "1"}
    return World(RANKS, environment | settings)


def sum_of_ones(elements: int = ELEMENTS) -> tuple[float, str]:
    """The sum, and where it was made."""
    tensor = torch.ones(elements)
    work = dist.all_reduce(tensor, async_op=True)
    work.wait()
    assert tensor.min() == tensor.max()
    return float(tensor[0]), str(explain(work))


def sum_until(reason: str) -> int:
    """Sums until all ranks' sums are made there; returns how often. All ranks see the same reasons."""
    for count in range(10_000):
        value, where = sum_of_ones()
        assert value == dist.get_world_size()
        if where == reason:
            return count
    raise AssertionError(f"no sum was {reason}")


def switches() -> tuple[int, int]:
    engine = report().groups[0].engine
    return engine["left_for_gloo"], engine["returned_from_gloo"]


@by_threads
def test_the_ranks_go_over_to_gloo_and_return_together(node: Deployment) -> None:
    with three(node) as world:
        assert world.run(sum_of_ones) == [(RANKS, "summed")] * RANKS
        for kills in (1, 2):
            node.daemon("switch").kill()
            assert world.run(sum_of_ones) == [(RANKS, "not_served")] * RANKS
            node.revive("switch")
            assert len(set(world.run(sum_until, "summed"))) == 1
            assert world.run(switches) == [(kills, kills)] * RANKS


def train(steps: int, pause_s: float) -> tuple[list[float], list[str]]:
    """Bits of the parameters after each step, and where a gradient was summed."""
    torch.manual_seed(0)
    model = DistributedDataParallel(torch.nn.Linear(300, 100), gradient_as_bucket_view=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    seen = []
    for step in range(steps):
        inputs = torch.full((4, 300), float(step % 5 + dist.get_rank()))
        optimizer.zero_grad()
        (model(inputs) / 100).square().mean().backward()
        optimizer.step()
        time.sleep(pause_s)
        seen.append(float(sum(parameter.double().sum() for parameter in model.parameters())))
    rows = report().groups[0].rows
    return seen, sorted({str(row.reason) for row in rows if row.collective == "all_reduce"})


@by_threads
def test_training_ends_as_it_would_have(node: Deployment) -> None:
    """The aggregator dies within a step and returns; parameters are equal on all ranks, and near to those without."""
    with three(node) as world:
        calm = world.run(train, 300, 0.01)
        timer = kill_and_revive(node, 1.0)
        killed = world.run(train, 300, 0.01)
        timer.join()
        world.run(sum_until, "summed")
    assert all(seen == killed[0][0] for seen, _ in killed)
    torch.testing.assert_close(torch.tensor(killed[0][0]), torch.tensor(calm[0][0]), rtol=1e-5, atol=1e-4)


def account_for(steps: int, pause_s: float) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, set[str]]:
    """All that this rank passed by 8 bits, all sums that it got, what is kept in the end, and where sums were made."""
    values = torch.randn(ELEMENTS, generator=torch.Generator().manual_seed(dist.get_rank()))
    kept, sums, reasons = torch.zeros(ELEMENTS), torch.zeros(ELEMENTS, dtype=torch.float64), set()
    for _ in range(steps):
        tensor = values + kept
        work = eight_bits.all_reduce(tensor, dist.ReduceOp.SUM, kept=kept, async_op=True)
        assert work is not None
        work.wait()
        reasons.add(str(explain(work)))
        sums += tensor
        time.sleep(pause_s)
    return steps * values.double(), sums, kept.double(), reasons


@by_threads
def test_of_8_bits_nothing_is_lost_either(node: Deployment) -> None:
    """What Gloo sums in the meantime is whole, so nothing of it is kept, and nothing is added twice."""
    with three(node) as world:
        timer = kill_and_revive(node, 1.0)
        outcomes = world.run(account_for, 400, 0.01)
        timer.join()
        world.run(sum_until, "summed")
    passed, kept = (sum(outcome[part] for outcome in outcomes) for part in (0, 2))
    for _, sums, _, reasons in outcomes:
        assert torch.equal(sums, outcomes[0][1]), "the same bits on every rank"
        assert {"summed", "not_served"} <= reasons
        assert (passed - sums - kept).abs().max() < 1e-2


def in_flight() -> list[float]:
    """Many collectives at once, of which some have ended when the node dies."""
    size, rank = dist.get_world_size(), dist.get_rank()
    tensors = [torch.full((50_000 + n,), float(n * (rank + 1))) for n in range(30)]
    works = [dist.all_reduce(tensor, async_op=True) for tensor in tensors]
    for n, (work, tensor) in enumerate(zip(works, tensors, strict=True)):
        work.wait()
        torch.testing.assert_close(tensor, torch.full_like(tensor, float(n * sum(range(1, size + 1)))))
    return [float(tensor[-1]) for tensor in tensors]


@by_threads
@pytest.mark.parametrize("delay_s", [0.0, 0.005, 0.02])
def test_collectives_under_way_are_neither_lost_nor_summed_twice(node: Deployment, delay_s: float) -> None:
    with three(node) as world:
        world.run(sum_of_ones)
        timer = threading.Timer(delay_s, node.daemon("switch").kill)
        timer.start()
        results = world.run(in_flight)
        timer.join()
        assert results[0] == results[1] == results[2]


def shares_in_flight(rounds: int) -> list[str]:
    """Where small collectives and large ones were done; bits of a result tell what each rank passed."""
    size, rank = dist.get_world_size(), dist.get_rank()
    seen = []
    for n in range(rounds):
        large = torch.full((20_000,), float(n * (rank + 1)))
        small = torch.tensor([1 << (8 * rank) | n << 40])
        works = [dist.all_reduce(large, async_op=True)]
        works += [dist.all_reduce(small, dist.ReduceOp.BOR, async_op=True), dist.barrier(async_op=True)]
        for work in works:
            work.wait()
        torch.testing.assert_close(large, torch.full_like(large, float(n * sum(range(1, size + 1)))))
        assert int(small) == n << 40 | 0x010101
        seen += [str(explain(work)) for work in works]
    return seen


@pytest.mark.parametrize("delay_s", [0.0, 0.02, 0.05])
def test_small_collectives_under_way_are_neither_lost_nor_reduced_twice(node: Deployment, delay_s: float) -> None:
    with three(node) as world:
        assert set(world.run(shares_in_flight, 1)[0]) == {"summed", "shared"}
        timer = threading.Timer(delay_s, node.daemon("switch").kill)
        timer.start()
        for seen in world.run(shares_in_flight, 100):
            assert seen[-3:] == ["not_served"] * 3
        timer.join()
        node.revive("switch")
        assert len(set(world.run(sum_until, "summed"))) == 1
        assert world.run(shares_in_flight, 1) == [["summed", "shared", "shared"]] * RANKS


def other_kinds() -> None:
    """What others than all-reduces do over Gloo."""
    size, rank = dist.get_world_size(), dist.get_rank()
    tensor = torch.arange(3000.0) * (rank + 1)
    part = torch.empty(1000)
    dist.reduce_scatter_tensor(part, tensor, op=dist.ReduceOp.AVG)
    torch.testing.assert_close(part, torch.arange(3000.0)[1000 * rank : 1000 * rank + 1000] * (size + 1) / 2)
    whole = torch.empty(3000)
    dist.all_gather_into_tensor(whole, part)
    torch.testing.assert_close(whole, torch.arange(3000.0) * (size + 1) / 2)
    dist.reduce(tensor, 1)
    if rank == 1:
        torch.testing.assert_close(tensor, torch.arange(3000.0) * sum(range(1, size + 1)))
    copy = torch.full((2000,), float(rank))
    dist.broadcast(copy, 2)
    assert torch.equal(copy, torch.full_like(copy, 2.0))
    gathers_and_scatters(1)


def gathers_and_scatters(times: int) -> list[str]:
    """Each by a root of its own, under way together: where they were done."""
    size, rank = dist.get_world_size(), dist.get_rank()
    seen = []
    for n in range(times):
        gathered = [torch.empty(2000) for _ in range(size)] if rank == 0 else None
        given = [torch.full((2000,), 10.0 * n + place) for place in range(size)] if rank == size - 1 else None
        part = torch.empty(2000)
        works = [
            dist.gather(torch.full((2000,), float(n + rank)), gathered, 0, async_op=True),
            dist.scatter(part, given, size - 1, async_op=True),
        ]
        for work in works:
            work.wait()
        assert [bool((one == n + place).all()) for place, one in enumerate(gathered or [])].count(False) == 0
        assert torch.equal(part, torch.full_like(part, 10.0 * n + rank))
        seen += [str(explain(work)) for work in works]
    return seen


@pytest.mark.parametrize("delay_s", [0.0, 0.02, 0.05])
def test_gathers_and_scatters_under_way_are_repeated(tmp_path: Path, delay_s: float) -> None:
    with aggregator(tmp_path, RANKS, Job(values_per_packet=352, copies=True)) as node, three(node) as world:
        assert world.run(gathers_and_scatters, 1) == [["copied"] * 2] * RANKS
        timer = threading.Timer(delay_s, node.daemon("switch").kill)
        timer.start()
        for seen in world.run(gathers_and_scatters, 100):
            assert seen[-2:] == ["not_served"] * 2
        timer.join()


def test_every_kind_is_repeated(tmp_path: Path) -> None:
    with aggregator(tmp_path, RANKS, Job(values_per_packet=352, copies=True)) as node, three(node) as world:
        world.run(other_kinds)
        node.daemon("switch").kill()
        world.run(other_kinds)


def gather_until(reason: str) -> int:
    """Gathers until all ranks' copies come from there; returns how often."""
    size, rank = dist.get_world_size(), dist.get_rank()
    for count in range(10_000):
        whole = torch.empty(size * 1000)
        work = dist.all_gather_into_tensor(whole, torch.full((1000,), float(rank)), async_op=True)
        work.wait()
        assert torch.equal(whole, torch.arange(size).repeat_interleave(1000).float())
        if str(explain(work)) == reason:
            return count
    raise AssertionError(f"no copy was {reason}")


def test_a_server_below_the_root_that_exchanges_is_left_and_returned_to(tmp_path: Path) -> None:
    """Sums would go round it; what is exchanged does not."""
    job = Job(values_per_packet=352, copies=True, workers=["W1", "W2", "W7"])
    made = plan(xagg(), job, PlanOptions(engine="udp"))
    assert servers_of(made).keys() == {"PS", "S1"}
    with Deployment(ThisHost(tmp_path), on_loopback(made)) as nodes, three(nodes) as world:
        assert world.run(gather_until, "copied") == [0] * RANKS
        nodes.daemon("S1").kill()
        world.run(other_kinds)
        assert world.run(switches) == [(1, 0)] * RANKS
        nodes.revive("S1")
        assert len(set(world.run(gather_until, "copied"))) == 1
        world.run(other_kinds)
        assert world.run(switches) == [(1, 1)] * RANKS


def test_without_replay_a_dead_aggregator_ends_the_job(node: Deployment) -> None:
    world = three(node, WIRESUM_REPLAY="0")
    world.timeout_s = 4.0
    with world:
        world.run(sum_of_ones)
        node.daemon("switch").kill()
        for failure in world.try_to_run(sum_of_ones):
            assert isinstance(failure, Failure)
            assert failure.kind == "CollectiveTimeoutError"


def test_what_was_too_large_to_keep_is_an_error_that_says_what_would_do(node: Deployment) -> None:
    with three(node, WIRESUM_REPLAY="100000") as world:
        assert world.run(sum_of_ones) == [(RANKS, "summed")] * RANKS
        node.daemon("switch").kill()
        for failure in world.try_to_run(sum_of_ones, 50_000):
            assert isinstance(failure, Failure)
            assert failure.kind == "CollectiveError"
            assert "WIRESUM_REPLAY=" in failure.message


def test_settings_that_differ_are_an_error(node: Deployment) -> None:
    world = three(node)
    world.create_group = False
    with world:
        for failure in world.try_to_run(create_differently):
            assert isinstance(failure, Failure)
            assert "WIRESUM_REPLAY differs" in failure.message


def create_differently() -> None:
    import os

    import world

    if world._this_rank["rank"] == 1:
        os.environ["WIRESUM_REPLAY"] = "0"
    world.create_group()


def test_a_rank_that_dies_while_the_node_is_away_is_an_error_and_no_hang(node: Deployment) -> None:
    with three(node) as world:
        world.run(sum_of_ones)
        node.daemon("switch").kill()
        world.processes[1].kill()
        for failure in world.try_to_run(sum_of_ones, ranks=[0, 2]):
            assert isinstance(failure, Failure)
            assert failure.kind in {"CollectiveError", "WorkerLostError"}
            assert "all_reduce" in failure.message
