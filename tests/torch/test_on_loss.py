"""Groups that go on without ranks that are lost (`WIRESUM_ON_LOSS=continue`): what they sum and where, and refuse."""

from __future__ import annotations

import os
import signal
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
from wiresum.plan.job import Job
from wiresum.torch import explain, report

RANKS = 4
ELEMENTS = 20_000
LEFT = [0, 2, 3]
"""The ranks but rank 1."""


@pytest.fixture(params=["udp", "tcp"])
def node(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Deployment]:
    with aggregator(tmp_path, RANKS, engine=request.param) as running:
        yield running


@pytest.fixture
def star(tmp_path: Path) -> Iterator[Deployment]:
    with aggregator(tmp_path, RANKS, Job(values_per_packet=352, copies=True)) as running:
        yield running


def four(node: Deployment, **settings: str) -> World:
    environment = {
        "WIRESUM_PLAN": str(node.plan_file), "WIRESUM_DEAD_AFTER": "1", "WIRESUM_ON_LOSS": "continue",
    }  # fmt: skip
    return World(RANKS, environment | settings)


def mean_of_ranks(elements: int = ELEMENTS) -> tuple[float, str]:
    """The average of all ranks' numbers, and where it was made; a sum is as many times that as there are ranks."""
    tensor = torch.full((elements,), float(dist.get_rank()))
    total = tensor.clone()
    work = dist.all_reduce(tensor, dist.ReduceOp.AVG, async_op=True)
    work.wait()
    dist.all_reduce(total)
    torch.testing.assert_close(total, tensor * dist.get_world_size())
    return round(float(tensor[0]), 5), str(explain(work))


def mean_until(reason: str) -> float:
    """Averages until all ranks' are made there."""
    for _ in range(10_000):
        value, where = mean_of_ranks()
        if where == reason:
            return value
    raise AssertionError(f"no average was {reason}")


def test_the_others_go_on_in_the_network(node: Deployment) -> None:
    with four(node) as world:
        assert world.run(mean_of_ranks) == [(1.5, "summed")] * RANKS
        world.processes[1].kill()
        left = [0, 2, 3]
        assert world.run(mean_of_ranks, ranks=left) == [(round(5 / 3, 5), "not_served")] * 3
        assert world.run(mean_until, "summed", ranks=left) == [round(5 / 3, 5)] * 3
        world.processes[3].kill()
        left = [0, 2]
        assert {value for value, _ in world.run(mean_of_ranks, ranks=left)} == {1.0}
        assert world.run(mean_until, "summed", ranks=left) == [1.0, 1.0]
        assert world.run(counts, ranks=left) == [(2, 2, 2)] * 2


def counts() -> tuple[int, int, int]:
    engine = report().groups[0].engine
    return engine["left_for_gloo"], engine["returned_from_gloo"], engine["lost_ranks"]


def test_the_first_rank_may_be_lost(star: Deployment) -> None:
    with four(star) as world:
        world.run(mean_of_ranks)
        world.processes[0].kill()
        assert world.run(mean_until, "summed", ranks=[1, 2, 3]) == [2.0] * 3


def test_several_ranks_may_be_lost_at_once(star: Deployment) -> None:
    """As with their host; nodes name one of them."""
    with four(star) as world:
        world.run(mean_of_ranks)
        for rank in (0, 2):
            world.processes[rank].kill()
        assert world.run(mean_until, "summed", ranks=[1, 3]) == [2.0, 2.0]
        assert [engine for _, _, engine in world.run(counts, ranks=[1, 3])] == [2, 2]


def gather_by_gloo() -> None:
    mine = torch.ones(5000, dtype=torch.float64)
    dist.all_gather_into_tensor(torch.empty(RANKS * 5000, dtype=torch.float64), mine)


def test_what_gloo_has_at_that_moment_names_the_lost_rank_and_ends_nothing(node: Deployment) -> None:
    with four(node) as world:
        world.run(gather_by_gloo)
        threading.Timer(0.5, world.processes[1].kill).start()
        for failure in world.try_to_run(gather_by_gloo, ranks=LEFT):
            assert isinstance(failure, Failure)
            assert failure.kind == "WorkerLostError", failure.trace
            assert "rank 1" in failure.message
        assert world.run(mean_until, "summed", ranks=LEFT) == [round(5 / 3, 5)] * 3


def other_kinds() -> None:
    """What has a meaning without rank 1, where the network does it and where Gloo does."""
    size, rank = dist.get_world_size(), dist.get_rank()
    left = torch.tensor([0.0, 2.0, 3.0])
    for elements in (4000, 40):
        tensor = torch.full((elements,), float(rank))
        dist.reduce(tensor, 2, op=dist.ReduceOp.AVG)
        if rank == 2:
            torch.testing.assert_close(tensor, torch.full_like(tensor, float(left.mean())))
        else:
            assert torch.equal(tensor, torch.full_like(tensor, float(rank)))
        copy = torch.full((elements,), float(rank))
        dist.broadcast(copy, 3)
        assert torch.equal(copy, torch.full_like(copy, 3.0))
        part = torch.empty(elements // size)
        dist.reduce_scatter_tensor(part, torch.arange(float(elements)) * rank, op=dist.ReduceOp.AVG)
        own = torch.arange(float(elements))[elements // size * rank : elements // size * (rank + 1)]
        torch.testing.assert_close(part, own * float(left.mean()))
    counted = torch.ones(3, dtype=torch.int64)
    dist.all_reduce(counted)
    assert counted.tolist() == [3, 3, 3], "numbers of a kind that nobody divides are not scaled"
    largest = torch.tensor([rank])
    dist.all_reduce(largest, dist.ReduceOp.MAX)
    assert int(largest) == size - 1
    double = torch.ones(5000, dtype=torch.float64)
    dist.all_reduce(double)
    torch.testing.assert_close(double, torch.full_like(double, float(size)))
    infinite = torch.full((5000,), float("inf") if rank == 3 else 1.0)
    dist.all_reduce(infinite)
    assert bool(torch.isinf(infinite).all())
    dist.barrier()


@pytest.fixture(params=[True, False], ids=["copies", "no copies"])
def without_rank_1(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[tuple[Deployment, World]]:
    """Ranks 0, 2 and 3 are back in the network."""
    job = Job(values_per_packet=352, copies=request.param)
    with aggregator(tmp_path, RANKS, job) as node, four(node) as world:
        world.run(mean_of_ranks)
        world.processes[1].kill()
        world.run(mean_until, "summed", ranks=LEFT)
        yield node, world


def test_other_kinds(without_rank_1: tuple[Deployment, World]) -> None:
    node, world = without_rank_1
    world.run(other_kinds, ranks=LEFT)
    node.daemon("switch").kill()
    world.run(other_kinds, ranks=LEFT)
    node.revive("switch")
    assert world.run(mean_until, "summed", ranks=LEFT) == [round(5 / 3, 5)] * 3


def gather(root: int) -> list[str]:
    """The errors of what needs a rank that is lost; what comes after it is right."""
    seen = []
    own, whole = torch.ones(4000), torch.empty(4 * 4000)
    calls = (
        lambda: dist.all_gather_into_tensor(whole, own),
        lambda: dist.broadcast(own, root),
        lambda: dist.reduce(own, root),
        lambda: dist.all_to_all_single(torch.empty_like(whole), whole),
        lambda: dist.gather(own, list(whole.chunk(4)) if dist.get_rank() == 0 else None, 0),
        lambda: dist.scatter(own, list(whole.chunk(4)) if dist.get_rank() == 0 else None, 0),
    )
    for call in calls:
        try:
            call()
        except Exception as error:
            seen.append(f"{type(error).__name__}: {error}")
        assert mean_of_ranks()[0] == round(5 / 3, 5)
    return seen


def test_what_needs_a_lost_rank_names_it(without_rank_1: tuple[Deployment, World]) -> None:
    _node, world = without_rank_1
    for seen in world.run(gather, 1, ranks=LEFT):
        assert len(seen) == 6
        assert all(text.startswith("WorkerLostError") and "rank 1" in text for text in seen), seen


def test_a_rank_that_was_stopped_is_told_that_the_others_went_on(star: Deployment) -> None:
    with four(star) as world:
        world.run(mean_of_ranks)
        stopped = world.processes[2].pid
        assert stopped is not None
        os.kill(stopped, signal.SIGSTOP)
        assert world.run(mean_until, "summed", ranks=[0, 1, 3]) == [round(4 / 3, 5)] * 3
        os.kill(stopped, signal.SIGCONT)
        (own,) = world.try_to_run(mean_of_ranks, ranks=[2])
        assert isinstance(own, Failure)
        assert "without this one" in own.message or "for dead" in own.message
        assert world.run(mean_of_ranks, ranks=[0, 1, 3]) == [(round(4 / 3, 5), "summed")] * 3


def train(steps: int, dies_at: int | None) -> list[float]:
    """Parameters' sum after each step of an unmodified training; rank 1 ends its process before a step."""
    torch.manual_seed(0)
    model = DistributedDataParallel(torch.nn.Sequential(torch.nn.Linear(300, 100), torch.nn.BatchNorm1d(100)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    seen = []
    for step in range(steps):
        if step == dies_at and dist.get_rank() == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        torch.manual_seed(100 * step + dist.get_rank())
        optimizer.zero_grad()
        model(torch.randn(8, 300)).square().mean().backward()
        optimizer.step()
        time.sleep(0.01)
        seen.append(float(sum(parameter.detach().double().sum() for parameter in model.parameters())))
    return seen


def train_alone(steps: int, dies_at: int) -> list[float]:
    """The same in one process: gradients are averages of four, then of three."""
    torch.manual_seed(0)
    models = [torch.nn.Sequential(torch.nn.Linear(300, 100), torch.nn.BatchNorm1d(100)) for _ in range(RANKS)]
    for other in models[1:]:
        other.load_state_dict(models[0].state_dict())
    seen = []
    for step in range(steps):
        ranks = [rank for rank in range(RANKS) if step < dies_at or rank != 1]
        for rank in ranks:
            torch.manual_seed(100 * step + rank)
            models[rank].zero_grad()
            models[rank](torch.randn(8, 300)).square().mean().backward()
        with torch.no_grad():
            for parameters in zip(*(models[rank].parameters() for rank in ranks), strict=True):
                mean = torch.stack([parameter.grad for parameter in parameters]).mean(0)
                for parameter in parameters:
                    parameter.sub_(mean, alpha=0.01)
        seen.append(float(sum(parameter.detach().double().sum() for parameter in models[0].parameters())))
    return seen


def test_training_loses_a_worker_and_then_its_only_aggregator(star: Deployment) -> None:
    """It ends with the weights that it should have: averages of four, and from the loss on of three."""
    steps, dies_at = 300, 40
    with four(star) as world:
        killing = threading.Thread(target=lambda: (world.processes[1].join(), kill_and_revive(star, 2.5).join()))
        killing.start()  # a busy machine may take long to the first loss
        results = world.try_to_run(train, steps, dies_at)
        killing.join()
        assert isinstance(results[1], Failure)
        left = [results[rank] for rank in (0, 2, 3)]
        assert not any(isinstance(seen, Failure) for seen in left), left
        assert left[0] == left[1] == left[2]
        world.run(mean_until, "summed", ranks=[0, 2, 3])
    expected = torch.tensor(train_alone(steps, dies_at))
    torch.testing.assert_close(torch.tensor(left[0]), expected, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"WIRESUM_DEAD_AFTER": "0"}, "WIRESUM_DEAD_AFTER=0"),
        ({"WIRESUM_REPLAY": "0"}, "WIRESUM_REPLAY=0"),
    ],
)
def test_what_it_needs_is_said_when_the_group_is_created(
    star: Deployment, settings: dict[str, str], problem: str
) -> None:
    world = four(star, **settings)
    world.create_group = False
    with world:
        for failure in world.try_to_run(create):
            assert isinstance(failure, Failure)
            assert failure.kind == "SettingError"
            assert problem in failure.message


def create() -> None:
    import world

    world.create_group()


def create_differently() -> None:
    import world

    if world._this_rank["rank"] == 1:
        os.environ["WIRESUM_ON_LOSS"] = "fail"
    world.create_group()


def test_settings_that_differ_are_an_error(star: Deployment) -> None:
    world = four(star)
    world.create_group = False
    with world:
        for failure in world.try_to_run(create_differently):
            assert isinstance(failure, Failure)
            assert "WIRESUM_ON_LOSS differs" in failure.message
