"""FSDP2 begins its collectives and waits for them in the order that predictions and simulations have."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any
from unittest.mock import patch

import pytest
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard
from torch.testing._internal.distributed.fake_pg import FakeStore

import torch
from torch import nn
from wiresum.predict import sharded
from wiresum.predict.sharded import PASSED, ShardedStep
from wiresum.torch import fsdp

WIDTH, RANKS = 8, 2
STEPS = 3
"""In the first of them `overlap` learns the order."""
CALLS = {"all_gather_single": "all_gather", "reduce_scatter_single": "reduce_scatter"}
CALLS |= {"reduce_scatter_tensor": "reduce_scatter"}
Events = list[tuple[str, Any]]


@pytest.fixture
def fake() -> Iterator[None]:
    """A group of which this process is one rank, and the others are nobody."""
    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=RANKS)
    yield
    dist.destroy_process_group()


class Awaited(dist.Work):
    """A collective that notes when it is waited for."""

    def __init__(self, work: Any, number: int, events: Events) -> None:
        super().__init__()
        self._work, self._number, self._events = work, number, events

    def wait(self, timeout: Any = None) -> bool:
        self._events.append(("wait", self._number + 1))
        return bool(self._work.wait())


class Recorder:
    """Collectives as a step begins and awaits them; one that blocks is not waited for."""

    def __init__(self) -> None:
        self.events: Events = []
        self._begun = 0

    def start(self) -> None:
        """Forgets earlier steps."""
        self.events.clear()
        self._begun = 0

    def noting(self, name: str, collective: Callable[..., Any]) -> Callable[..., Any]:
        """The same collective, noted."""

        def begin(*arguments: Any, **options: Any) -> Any:
            number, self._begun = self._begun, self._begun + 1
            self.events.append(("begin", PASSED.index(name)))
            work = collective(*arguments, **options)
            return work and Awaited(work, number, self.events)

        return begin


def last_step(blocks: int, *, overlapped: bool) -> Events:
    """What the last step of a training does, and the computing of its forward pass."""
    model, recorder = nn.Sequential(*(nn.Linear(WIDTH, WIDTH) for _ in range(blocks))), Recorder()
    mesh = dist.init_device_mesh("cpu", (RANKS,))
    for block in (*model, model):
        fully_shard(block, mesh=mesh)
    if overlapped:
        fsdp.overlap(model)
    for block in model:
        block.register_forward_pre_hook(lambda *_: recorder.events.append(("compute", None)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with ExitStack() as patches:
        for call, name in CALLS.items():
            patches.enter_context(patch.object(dist, call, recorder.noting(name, getattr(dist, call))))
        for _ in range(STEPS):
            recorder.start()
            model(torch.ones(1, WIDTH)).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
    return recorder.events


def expected(blocks: int, *, overlapped: bool) -> Events:
    """The actions of a simulated step, with the computing of its forward pass alone."""
    events: Events = []
    computed = 0
    for action in ShardedStep(blocks, overlapped).actions():
        [(what, value)] = action.items()
        if what == "compute":
            computed += 1
            events += [("compute", None)] if computed <= blocks else []
        else:
            events.append((what, value))
    return events


@pytest.mark.usefixtures("fake")
@pytest.mark.parametrize("blocks", [1, 2, 5])
def test_an_overlapped_step_begins_and_waits_as_it_is_simulated(blocks: int) -> None:
    events, simulated = last_step(blocks, overlapped=True), expected(blocks, overlapped=True)
    assert events[: len(simulated)] == simulated
    assert {what for what, _ in events[len(simulated) :]} == {"wait"}, "a step ends when all has ended"


@pytest.mark.usefixtures("fake")
@pytest.mark.parametrize("blocks", [1, 2, 5])
def test_a_step_as_it_is_begins_as_it_is_simulated_and_waits_for_each(blocks: int) -> None:
    simulated = expected(blocks, overlapped=False)
    assert last_step(blocks, overlapped=False) == [event for event in simulated if event[0] != "wait"]
    begun = [number for number, (what, _) in enumerate(simulated) if what == "begin"]
    assert [simulated[number + 1] for number in begun] == [("wait", count + 1) for count in range(len(begun))]


def test_as_many_reduce_scatters_are_under_way() -> None:
    assert sharded.MOST_REDUCE_SCATTERS == fsdp.MOST_REDUCE_SCATTERS
