"""FSDP2 with and without `overlap`: the same bits, another order of beginning and waiting."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import accumulate, product
from typing import Any
from unittest.mock import patch

import pytest
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard
from world import World

import torch
from torch import nn
from wiresum.errors import WiresumError
from wiresum.torch.fsdp import MOST_REDUCE_SCATTERS, overlap

WIDTH = 12
BATCH = 4
STEPS = 4


class Network(nn.Module):
    """Blocks run in another order than they are registered in; one runs twice, one not always."""

    def __init__(self) -> None:
        super().__init__()
        self.last, self.first, self.twice, self.spare, self.middle = (layer() for _ in range(5))
        self.head = nn.Linear(WIDTH, 3)

    def forward(self, x: torch.Tensor, *, spare: bool) -> torch.Tensor:
        x = self.first(x)
        x = self.twice(self.spare(x) if spare else x)
        result: torch.Tensor = self.head(self.last(self.twice(self.middle(x))))
        return result


def layer() -> nn.Module:
    return nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh())


def sharded(group: dist.ProcessGroup, *, overlapped: bool, **options: Any) -> Network:
    torch.manual_seed(0)
    model = Network()
    mesh = DeviceMesh.from_group(group, "cpu")
    for block in (*list(model.children())[:-1], model):
        fully_shard(block, mesh=mesh, **options)
    return overlap(model) if overlapped else model


def train(
    model: nn.Module, *, microbatches: int = 1, between: Callable[[nn.Module], Any] = lambda _: None
) -> list[torch.Tensor]:
    """Losses, and this rank's parameters after some steps; every other step without the spare block."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    generator = torch.Generator().manual_seed(1 + dist.get_rank())
    found = []
    for step in range(STEPS):
        for _ in range(microbatches):
            loss = model(torch.randn(BATCH, WIDTH, generator=generator), spare=step % 2 == 0).square().mean()
            loss.backward()
            found.append(loss.detach())
        optimizer.step()
        optimizer.zero_grad()
        between(model)
    return [*found, *(parameter.to_local().detach() for parameter in model.parameters())]


def evaluate_and_load(model: nn.Module) -> None:
    """What is gathered for a block that does not run must not outlive the parameters that it was gathered from."""
    with torch.no_grad():
        for spare in (True, False):
            model(torch.ones(BATCH, WIDTH), spare=spare)
        for block in model.modules():
            if isinstance(block, FSDPModule):
                block.reshard()
        for parameter in model.parameters():
            parameter.mul_(0.5)


def fail_within_backward(model: nn.Module) -> None:
    """Leaves reduce-scatters of the blocks behind the middle under way."""
    assert isinstance(model, Network)

    def fail(_gradient: torch.Tensor) -> None:
        raise ArithmeticError

    handle = model.middle.register_forward_hook(lambda _module, _input, output: output.register_hook(fail) and None)
    with pytest.raises(ArithmeticError):
        model(torch.ones(BATCH, WIDTH), spare=True).sum().backward()
    handle.remove()
    assert isinstance(model, FSDPModule)
    model.reset_iter_state()


VARIANTS: dict[str, tuple[dict[str, Any], dict[str, Any], str | None]] = {
    "plain": ({}, {}, None),
    "evaluated": ({}, {"between": evaluate_and_load}, None),
    "failed and reset": ({}, {"between": fail_within_backward}, None),
    "kept unsharded": ({"reshard_after_forward": False}, {}, None),
    "accumulated": ({}, {"microbatches": 2}, "it is added to a gradient that is there"),
    "bfloat16": ({"mp_policy": MixedPrecisionPolicy(reduce_dtype=torch.bfloat16)}, {}, "becomes a gradient of"),
    "float16": ({"mp_policy": MixedPrecisionPolicy(reduce_dtype=torch.float16)}, {}, "is divided"),
}
"""Options of sharding and training, and why reduce-scatters are waited for."""


class Said(logging.Handler):
    """Keeps what is logged."""

    def __init__(self) -> None:
        super().__init__()
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append(record.getMessage())


def both_ways(backend: str, variant: str) -> tuple[list[bool], list[str]]:
    """Which tensors are equal to the bit, and what was said."""
    sharding, training, _ = VARIANTS[variant]
    group = dist.group.WORLD if backend == "wiresum" else dist.new_group(backend=backend)
    logger, said = logging.getLogger("wiresum.torch"), Said()
    logger.addHandler(said)
    plain, ahead = (train(sharded(group, overlapped=way, **sharding), **training) for way in (False, True))
    logger.removeHandler(said)
    if backend != "wiresum":
        dist.destroy_process_group(group)
    return [torch.equal(a, b) for a, b in zip(plain, ahead, strict=True)], [
        message for message in said.messages if message.startswith("overlap")
    ]


@pytest.mark.parametrize("backend", ["gloo", "wiresum"])
@pytest.mark.parametrize("variant", VARIANTS)
def test_bits_are_those_of_fsdp2_alone(copying: World, backend: str, variant: str) -> None:
    reason = VARIANTS[variant][2]
    for rank, (equal, said) in enumerate(copying.run(both_ways, backend, variant)):
        assert all(equal), (rank, equal)
        if rank == 0:
            assert len(said) == (reason is not None), said
            assert not said or (reason or "") in said[0]


class Recorded(dist.Work):
    """A collective that notes when it is waited for."""

    def __init__(self, work: Any, name: str, events: list[tuple[str, str]]) -> None:
        super().__init__()
        self._work, self._name, self._events = work, name, events

    def wait(self, timeout: Any = None) -> bool:
        self._events.append(("wait", self._name))
        return bool(self._work.wait())


def recorded(way: str) -> list[tuple[str, str]]:
    """When each collective of a training began and was waited for; one that blocks has no second event."""
    events: list[tuple[str, str]] = []
    names = iter(range(1000))

    def noting(kind: str, collective: Callable[..., Any]) -> Callable[..., Any]:
        def begin(*arguments: Any, **options: Any) -> Any:
            name = f"{kind} {next(names)}"
            events.append(("begin", name))
            work = collective(*arguments, **options)
            return work and Recorded(work, name, events)

        return begin

    model = sharded(dist.group.WORLD, overlapped=way == "overlapped")
    with ExitStack() as patches:
        for name in ("all_gather_single", "reduce_scatter_single", "reduce_scatter_tensor"):
            kind = name.rpartition("_")[0]
            patches.enter_context(patch.object(dist, name, noting(kind.replace("_", "-"), getattr(dist, name))))
        train(model)
    return events


def pairs_at_once(events: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Reduce-scatters and all-gathers each of which had begun, and was not waited for, when the other was."""
    waited = [name for how, name in events if how == "wait"]
    spans = {name: range(events.index(("begin", name)), events.index(("wait", name))) for name in waited}
    sums, copies = ([name for name in spans if name.startswith(kind)] for kind in ("reduce-scatter", "all-gather"))
    return [(a, b) for a, b in product(sums, copies) if spans[a][0] in spans[b] or spans[b][0] in spans[a]]


def most_sums_at_once(events: list[tuple[str, str]]) -> int:
    steps = [1 if how == "begin" else -1 for how, name in events if name.startswith("reduce-scatter")]
    return max(accumulate(steps))


def test_reduce_scatters_are_under_way_beside_all_gathers(copying: World) -> None:
    for events in copying.run(recorded, "overlapped"):
        assert len(pairs_at_once(events)) >= STEPS
        assert most_sums_at_once(events) == MOST_REDUCE_SCATTERS
        begun, ended = (sorted(name for how, name in events if how == which) for which in ("begin", "wait"))
        assert begun == ended
    for events in copying.run(recorded, "plain"):
        assert len(events) >= STEPS
        assert not pairs_at_once(events)


@pytest.fixture
def alone() -> Iterator[None]:
    """A group of this process alone."""
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


@pytest.mark.usefixtures("alone")
def test_a_model_is_overlapped_once_and_stays_what_it_is() -> None:
    model = fully_shard(layer(), mesh=dist.init_device_mesh("cpu", (1,)))
    assert overlap(overlap(model)) is model
    with pytest.raises(ValueError, match="most_reduce_scatters is 0"):
        overlap(model, most_reduce_scatters=0)


@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize("name", ["_set_unshard_async_op", "set_custom_reduce_scatter", "_get_fsdp_state"])
def test_another_pytorch_is_told_what_it_lacks(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    model = fully_shard(layer(), mesh=dist.init_device_mesh("cpu", (1,)))
    monkeypatch.delattr(FSDPModule, name)
    with pytest.raises(WiresumError, match=rf"of PyTorch {re.escape(torch.__version__)} has no {name}; train without"):
        overlap(model)


def test_a_model_that_is_not_sharded_is_refused() -> None:
    with pytest.raises(WiresumError, match=r"Sequential is not; call fully_shard\(\)"):
        overlap(layer())
