"""Training code as people write it, unchanged, over aggregators: beside the same code over Gloo."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch.distributed as dist
from torch.distributed import checkpoint
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor
from torch.nn.parallel import DistributedDataParallel
from world import World

import torch
from torch import nn
from wiresum.torch import report

STEPS = 3
BATCH = 4
FEATURES = 32
LOSS_TOLERANCE = 1e-4
"""Relative. Both sums round, differently: a ring to float32 at each step, the network once to its integers."""
BFLOAT16_ROUNDING = 2**-8
"""Relative, for gradients that are reduced in bfloat16: Gloo rounds each partial sum, the network rounds once."""


class Network(nn.Module):
    """Convolution, batch normalisation with its buffers, and a branch that is not always used."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Conv1d(1, 8, 3, padding=1), nn.BatchNorm1d(8), nn.ReLU(), nn.Flatten())
        self.head = nn.Linear(8 * FEATURES, 10)
        self.spare = nn.Linear(8 * FEATURES, 10)

    def forward(self, x: torch.Tensor, *, spare: bool = False) -> torch.Tensor:
        features = self.body(x)
        result: torch.Tensor = self.spare(features) if spare else self.head(features)
        return result


def train(wrap: Callable[[nn.Module], Any], *, use_spare: bool | None = None) -> list[float]:
    """Trains a few steps; returns the losses and a fingerprint of the parameters."""
    torch.manual_seed(0)
    model = wrap(Network())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    generator = torch.Generator().manual_seed(dist.get_rank())
    losses = []
    for step in range(STEPS):
        x = torch.randn(BATCH, 1, FEATURES, generator=generator)
        target = torch.randint(0, 10, (BATCH,), generator=generator)
        spare = {} if use_spare is None else {"spare": step % 2 == 1 and use_spare}
        loss = nn.functional.cross_entropy(model(x, **spare), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses + [full(p).double().norm().item() for p in model.parameters()]


def full(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor.detach()


@contextmanager
def gloo() -> Iterator[Any]:
    group = dist.new_group(backend="gloo")
    yield group
    dist.destroy_process_group(group)


def ddp(group: Any, hook: str = "", **options: Any) -> Callable[[nn.Module], Any]:
    def wrap(model: nn.Module) -> Any:
        wrapped = DistributedDataParallel(model, process_group=group, bucket_cap_mb=0.02, **options)  # several buckets
        if hook == "bf16":
            wrapped.register_comm_hook(group, default_hooks.bf16_compress_hook)
        return wrapped

    return wrap


def ddp_both_ways(hook: str, options: dict[str, Any], use_spare: bool | None) -> tuple[list[float], list[float], int]:
    before = report().groups[0].summed
    ours = train(ddp(dist.group.WORLD, hook, **options), use_spare=use_spare)
    summed = report().groups[0].summed - before
    with gloo() as group:
        return ours, train(ddp(group, hook, **options), use_spare=use_spare), summed


@pytest.mark.parametrize(
    ("hook", "options", "use_spare", "tolerance"),
    [
        ("", {"find_unused_parameters": True}, None, LOSS_TOLERANCE),
        ("", {"find_unused_parameters": True}, True, LOSS_TOLERANCE),
        ("", {"find_unused_parameters": True, "gradient_as_bucket_view": True}, None, LOSS_TOLERANCE),
        ("bf16", {"find_unused_parameters": True}, None, 0.02),  # bfloat16 has 8 bits
    ],
    ids=["plain", "unused parameters", "bucket views", "bfloat16 hook"],
)
def test_ddp_trains_as_over_gloo(
    networked: World, hook: str, options: dict[str, Any], use_spare: bool | None, tolerance: float
) -> None:
    results = networked.run(ddp_both_ways, hook, options, use_spare)
    for ours, theirs, summed in results:
        assert summed >= STEPS
        assert ours == pytest.approx(theirs, rel=tolerance, abs=tolerance)
    parameters = [ours[STEPS:] for ours, _, _ in results]
    assert parameters.count(parameters[0]) == networked.size  # ranks never drift apart


def scattered() -> tuple[int, int]:
    """Reduce-scatters so far: those of the network, and all."""
    rows = [row for row in report().groups[0].rows if row.collective.startswith("reduce_scatter")]
    return sum(row.collectives for row in rows if row.is_summed), sum(row.collectives for row in rows)


def fsdp_both_ways() -> list[tuple[list[float], list[float]]]:
    def wrap(mesh: DeviceMesh, **options: Any) -> Callable[[nn.Module], Any]:
        return lambda model: fully_shard(model, mesh=mesh, **options)

    pairs = []
    for options in ({}, {"mp_policy": MixedPrecisionPolicy(reduce_dtype=torch.bfloat16)}):
        before = scattered()
        ours = train(wrap(dist.init_device_mesh("cpu", (dist.get_world_size(),)), **options))
        in_network, all_of_them = (now - was for now, was in zip(scattered(), before, strict=True))
        assert in_network == all_of_them >= STEPS  # the default group's, as the mesh has all ranks
        with gloo() as group:
            pairs.append((ours, train(wrap(DeviceMesh.from_group(group, "cpu"), **options))))
    return pairs


def test_fsdp2_trains_as_over_gloo(networked: World) -> None:
    for pairs in networked.run(fsdp_both_ways):
        for (ours, theirs), tolerance in zip(pairs, (LOSS_TOLERANCE, BFLOAT16_ROUNDING), strict=True):
            assert ours[:STEPS] == pytest.approx(theirs[:STEPS], rel=LOSS_TOLERANCE)
            assert ours[STEPS:] == pytest.approx(theirs[STEPS:], rel=tolerance)


def fsdp_with_copies() -> tuple[tuple[list[float], list[float]], dict[str, int]]:
    """Losses and parameters of an FSDP2 training here and over Gloo, and how many collectives the network took."""

    def taken() -> dict[str, int]:
        rows = [row for row in report().groups[0].rows if row.is_summed or row.is_copied]
        names = ("all_gather", "reduce_scatter")
        return {name: sum(row.collectives for row in rows if row.collective.startswith(name)) for name in names}

    def wrap(mesh: DeviceMesh) -> Callable[[nn.Module], Any]:
        return lambda model: fully_shard(model, mesh=mesh)

    before = taken()
    ours = train(wrap(dist.init_device_mesh("cpu", (dist.get_world_size(),))))
    counts = {name: count - before[name] for name, count in taken().items()}
    with gloo() as group:
        return (ours, train(wrap(DeviceMesh.from_group(group, "cpu")))), counts


def test_fsdp2_gathers_and_scatters_in_the_network(copying: World) -> None:
    for (ours, theirs), counts in copying.run(fsdp_with_copies):
        assert ours == pytest.approx(theirs, rel=LOSS_TOLERANCE)
        assert counts["all_gather"] >= STEPS
        assert counts["reduce_scatter"] >= STEPS


def hsdp() -> tuple[list[float], int]:
    size = dist.get_world_size()
    mesh = dist.init_device_mesh("cpu", (size, 1), mesh_dim_names=("replicate", "shard"))
    return train(lambda model: fully_shard(model, mesh=mesh)), len(report().groups)


def test_hsdp_trains(networked: World) -> None:
    results = networked.run(hsdp)
    parameters = [losses[STEPS:] for losses, _ in results]
    assert parameters.count(parameters[0]) == networked.size


def dtensors() -> None:
    size = dist.get_world_size()
    mesh = dist.init_device_mesh("cpu", (size,))
    whole = torch.arange(24.0).reshape(6, 4)
    sharded = distribute_tensor(whole, mesh, [Shard(0)])
    assert torch.equal(sharded.full_tensor(), whole)
    product = sharded.t() @ sharded
    assert any(isinstance(placement, Partial) for placement in product.placements)
    torch.testing.assert_close(product.full_tensor(), whole.t() @ whole)
    assert torch.equal(sharded.redistribute(mesh, [Replicate()]).to_local(), whole)
    assert torch.equal(distribute_tensor(whole, mesh, [Replicate()]).sum().full_tensor(), whole.sum())


def test_dtensors(networked: World) -> None:
    networked.run(dtensors)


def save_and_load(directory: str) -> None:
    torch.manual_seed(0)
    mesh = dist.init_device_mesh("cpu", (dist.get_world_size(),))
    model = fully_shard(Network(), mesh=mesh)
    saved = {name: full(value).clone() for name, value in model.state_dict().items()}
    checkpoint.save(model.state_dict(), checkpoint_id=directory)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
    state = model.state_dict()
    checkpoint.load(state, checkpoint_id=directory)
    model.load_state_dict(state)
    assert all(torch.equal(full(value), saved[name]) for name, value in model.state_dict().items())


def test_checkpoints(networked: World, tmp_path: Path) -> None:
    networked.run(save_and_load, str(tmp_path))


def functional() -> None:
    from torch.distributed import _functional_collectives as collectives

    size = dist.get_world_size()
    result = collectives.all_reduce(torch.ones(100), "sum", dist.group.WORLD)
    assert torch.equal(result + 0, torch.full((100,), float(size)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        many = collectives.all_reduce_coalesced([torch.ones(10), torch.ones(20)], "avg", dist.group.WORLD)
    assert all(torch.equal(each + 0, torch.ones_like(each)) for each in many)


def test_functional_collectives(networked: World) -> None:
    networked.run(functional)
