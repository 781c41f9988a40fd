"""Rounds that go on without a late rank, as PyTorch sees them."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
import torch.distributed as dist
from aggregator import aggregator
from torch.nn.parallel import DistributedDataParallel
from world import World

import torch
from wiresum.errors import WiresumError
from wiresum.torch import Reason, explain, report
from wiresum.torch.gradient_variance import GradientVariance
from wiresum.torch.participation import FoldLate, await_children, rounds_ahead

WORKERS = 3
LATE = 2
"""The rank that tests hold back."""
PATIENCE = timedelta(seconds=60)


@pytest.fixture(scope="module")
def partial(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """Three ranks, of which each round takes two."""
    directory = tmp_path_factory.mktemp("partial")
    with aggregator(directory, WORKERS, participants=2) as node:
        environment = {"WIRESUM_PLAN": str(node.plan_file), "WIRESUM_MIN_ELEMENTS": "1"}
        with World(WORKERS, environment) as world:
            yield world


def meet(name: str) -> None:
    """The late rank goes on from here when all others have come."""
    store = dist.distributed_c10d._get_default_store()
    if dist.get_rank() == LATE:
        store.wait([f"{name}/{rank}" for rank in range(WORKERS) if rank != LATE], PATIENCE)
    else:
        store.set(f"{name}/{dist.get_rank()}", "here")


def wait_for(k: int) -> None:
    """Rounds take k ranks from now on, everywhere."""
    await_children(k)
    report()  # comes back when the engine has heard it
    dist.barrier()


def one_late_sum() -> dict[str, Any]:
    wait_for(2)
    before = report().groups[0]
    tensor = torch.full((5000,), float(dist.get_rank() + 1))
    if dist.get_rank() == LATE:
        meet("sum")
    ahead = rounds_ahead()
    work = dist.all_reduce(tensor, async_op=True)
    work.wait()
    if dist.get_rank() != LATE:
        meet("sum")
    after = report().groups[0]
    ranks = after.engine["ranks_summed"] - before.engine["ranks_summed"]
    return {
        "sum": tensor.unique().tolist(), "why": explain(work), "ahead": ahead, "ranks": ranks,
        "missed": after.missed - before.missed, "summed": after.summed - before.summed, "text": after.summary(),
    }  # fmt: skip


def test_a_sum_goes_on_without_a_late_rank_which_gets_it(partial: World) -> None:
    outcomes = partial.run(one_late_sum)
    for rank, outcome in enumerate(outcomes):
        is_late = rank == LATE
        assert outcome["sum"] == [4.5], "1 + 2, for three"
        assert outcome["why"] is (Reason.MISSED if is_late else Reason.SUMMED)
        assert (outcome["missed"], outcome["summed"], outcome["ranks"]) == (int(is_late), 1, 2)
        assert f"of {WORKERS} ranks in the mean sum" in outcome["text"]
    assert outcomes[LATE]["ahead"] == 1


def steps(hook: bool, name: str) -> tuple[list[float], list[float]]:
    """Two steps of a linear model; the late rank misses the first. Gradients are r + 1 at rank r, then ten times it."""
    wait_for(WORKERS)
    torch.manual_seed(0)
    model = DistributedDataParallel(torch.nn.Linear(400, 1, bias=False))
    if hook:
        model.register_comm_hook(FoldLate(), FoldLate.hook)
    wait_for(2)
    means = []
    for number, factor in enumerate((1.0, 10.0)):
        if number == 1:
            wait_for(WORKERS)
        model.zero_grad()
        loss = model(torch.full((1, 400), factor * (dist.get_rank() + 1))).sum()
        is_held_back = number == 0 and dist.get_rank() == LATE
        if is_held_back:
            meet(name)
        loss.backward()
        if number == 0 and not is_held_back:
            meet(name)
        gradient = model.module.weight.grad
        assert gradient is not None
        means.append(float(gradient[0, 0]))
    wait_for(2)
    return means, model.module.weight.flatten()[:3].tolist()


def test_an_unmodified_ddp_trains_and_scales_by_who_took_part(partial: World) -> None:
    outcomes = partial.run(steps, False, "plain")
    assert outcomes.count(outcomes[0]) == WORKERS, "the same on every rank"
    assert outcomes[0][0] == pytest.approx([1.5, 20.0], rel=1e-6), "(1 + 2) / 2, then (10 + 20 + 30) / 3"


def test_a_late_gradient_is_folded_into_the_next(partial: World) -> None:
    outcomes = partial.run(steps, True, "folded")
    assert outcomes.count(outcomes[0]) == WORKERS
    folded = (3.0 + 30.0) / 2
    assert outcomes[0][0] == pytest.approx([1.5, (10 + 20 + folded) / 3], rel=1e-6)


def variance() -> float:
    wait_for(WORKERS)
    measured = GradientVariance()
    for step in range(2):
        gradient = torch.tensor([1.0, 2.0, 3.0]) * (dist.get_rank() + step)
        measured.note_own(gradient)
        dist.all_reduce(gradient, op=dist.ReduceOp.AVG)
        measured.note_mean(gradient)
    wait_for(2)
    return measured.estimate()


def test_the_variance_of_gradients_is_that_about_their_mean(partial: World) -> None:
    # Ranks have 0, 1, 2 and 1, 2, 3 times a gradient of square 14: Σ(g − ḡ)² / 2 is 14 in both steps.
    assert partial.run(variance) == pytest.approx([14.0] * WORKERS, rel=1e-5)


def test_without_a_network_there_is_nothing_to_wait_for() -> None:
    with pytest.raises(WiresumError, match="sums nothing in the network"):
        await_children(2)


def no_variance() -> None:
    with pytest.raises(ValueError, match="note at least one step"):
        GradientVariance().estimate()


def test_no_step_has_no_variance(partial: World) -> None:
    partial.run(no_variance)
