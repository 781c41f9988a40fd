"""DDP with PowerSGD's hook, which submits collectives from callbacks of others' futures: one order on all ranks."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import wraps
from pathlib import Path
from typing import Any

import pytest
import torch.distributed as dist
from aggregator import networked
from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook as power_sgd
from torch.nn.parallel import DistributedDataParallel
from world import World

import torch
from torch import nn
from wiresum.plan.job import Job
from wiresum.torch import Reason, explain, report

LAYERS, WIDTH = 5, 48
STEPS, PLAIN_STEPS = 8, 2
LOSS_TOLERANCE = 1e-4
"""Relative; as of plain DDP, whose sums round as those of the two factors do."""

Hook = Callable[[Any, Any], torch.futures.Future[torch.Tensor]]


def one_bucket_after_the_other(hook: Hook) -> Hook:
    """For Gloo, which has no order of its own for what callbacks submit."""

    @wraps(hook)
    def wait(state: Any, bucket: Any) -> torch.futures.Future[torch.Tensor]:
        future = hook(state, bucket)
        future.wait()
        return future

    return wait


def train(group: Any, hook: Hook) -> tuple[list[float], list[int]]:
    """A training of several buckets; returns the losses, and the parameters' bits."""
    torch.manual_seed(0)
    model = nn.Sequential(*(part for _ in range(LAYERS) for part in (nn.Linear(WIDTH, WIDTH), nn.Tanh())))
    wrapped = DistributedDataParallel(model, process_group=group, bucket_cap_mb=0.01)  # a layer each
    state = power_sgd.PowerSGDState(group, matrix_approximation_rank=2, start_powerSGD_iter=PLAIN_STEPS)
    wrapped.register_comm_hook(state, hook)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    generator = torch.Generator().manual_seed(dist.get_rank())
    losses = []
    for _ in range(STEPS):
        loss = (wrapped(torch.randn(8, WIDTH, generator=generator)) - 0.5).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses, [bits for p in model.parameters() for bits in p.detach().view(torch.int32).flatten().tolist()]


def both_ways() -> tuple[list[float], list[int], list[float], int]:
    hook: Hook = power_sgd.powerSGD_hook
    before = report().groups[0].summed
    losses, bits = train(dist.group.WORLD, hook)
    summed = report().groups[0].summed - before
    # It is not destroyed: a thread of Gloo's that held it last, in a callback, would wait for its own end.
    theirs, _ = train(dist.new_group(backend="gloo"), one_bucket_after_the_other(hook))
    return losses, bits, theirs, summed


@pytest.mark.parametrize("ranks", [2, 4])
@pytest.mark.parametrize("job", [Job(values_per_packet=352), Job(sealed=True)], ids=["open", "sealed"])
def test_power_sgd_trains_as_over_gloo(tmp_path: Path, ranks: int, job: Job) -> None:
    with networked(tmp_path, ranks, job) as world:
        results = world.run(both_ways)
    for losses, bits, theirs, summed in results:
        assert losses == pytest.approx(theirs, rel=LOSS_TOLERANCE)
        assert bits == results[0][1]
        assert summed >= PLAIN_STEPS


def interleaved(rounds: int) -> list[float]:
    """Sums whose callbacks sum again, of one length all, while the program goes on; each rank is late elsewhere."""
    rank, size = dist.get_rank(), dist.get_world_size()

    def delay(step: int) -> None:
        time.sleep(0.02 * ((step + rank) % size == 0))

    def again(step: int) -> Callable[[Any], torch.Tensor]:
        def ask(future: Any) -> torch.Tensor:
            delay(step)
            tensor = future.value()[0] + 1000.0 * step
            work = dist.all_reduce(tensor, async_op=True)
            result: torch.Tensor = work.get_future().wait()[0]
            assert explain(work) is Reason.SUMMED
            return result

        return ask

    futures = []
    for step in range(rounds):
        delay(step + 1)
        work = dist.all_reduce(torch.full((20_000,), float(rank + step)), async_op=True)
        delay(step + 2)  # so that it is over here, and not there
        futures.append(work.get_future().then(again(step)).then(lambda future: float(future.value()[0])))
    return [future.wait() for future in futures]


@pytest.fixture(scope="module")
def networked_by_four(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with networked(tmp_path_factory.mktemp("four"), 4) as world:
        yield world


def test_what_callbacks_submit_is_matched_whoever_comes_first(networked_by_four: World) -> None:
    size, rounds = 4, 6
    first = [sum(rank + step for rank in range(size)) for step in range(rounds)]
    expected = [float(size * (total + 1000 * step)) for step, total in enumerate(first)]
    for _ in range(3):
        for found in networked_by_four.run(interleaved, rounds):
            assert found == pytest.approx(expected, rel=1e-5)


def nested() -> list[float]:
    """Callbacks that submit, within callbacks."""

    def deeper(levels: int) -> Callable[[Any], float]:
        def ask(future: Any) -> float:
            work = dist.all_reduce(future.value()[0] / dist.get_world_size(), async_op=True)
            if levels == 0:
                return float(work.get_future().wait()[0][0])
            result: float = work.get_future().then(deeper(levels - 1)).wait()
            return result

        return ask

    works = [dist.all_reduce(torch.full((20_000,), float(step)), async_op=True) for step in range(3)]
    futures = [work.get_future().then(deeper(2)) for work in works]
    return [future.wait() for future in futures]


def test_callbacks_within_callbacks(networked_by_four: World) -> None:
    expected = [0.0, 4.0, 8.0]
    for found in networked_by_four.run(nested):
        assert found == pytest.approx(expected, rel=1e-5)
