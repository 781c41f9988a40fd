"""The mesh of a rank of `wiresum bench fsdp`, over groups of each backend."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh

import torch
import wiresum.torch
from wiresum.bench.rank import PATIENCE, member_of
from wiresum.torch.report import GroupReport, Row

SHARDS, REPLICAS = "shards", "replicas"
MEGA = 1e6


@dataclass(frozen=True)
class Axes:
    """A mesh, and the groups that this rank is in.

    Attributes:
        mesh: of shards, or of replicas and shards.
        groups: by what their ranks have of a model: its shards, or the same shard of its replicas.
    """

    mesh: DeviceMesh
    groups: dict[str, dist.ProcessGroup]

    def places(self) -> list[str]:
        """What the network did of each group of this rank, and what Gloo did, for people."""
        reports = {one.name: one for one in wiresum.torch.report().groups}
        return [
            f"{axis}, {group.size()} ranks: {place(reports[group.group_name])}"
            for axis, group in self.groups.items()
            if group.group_name in reports
        ]


def place(group: GroupReport) -> str:
    """Collectives of a group in the network and through Gloo, and why there."""
    inside = [row for row in group.rows if row.is_summed or row.is_copied]
    outside = [row for row in group.rows if row not in inside]
    why = "".join(sorted({f" {row.reason.explanation}" for row in outside}))
    return f"the network carried {_amount(inside)}, Gloo {_amount(outside)}.{why}"


def _amount(rows: Sequence[Row]) -> str:
    return f"{sum(row.collectives for row in rows)} collectives of {sum(row.bytes for row in rows) / MEGA:.1f} MB"


@contextmanager
def meshes(backends: Sequence[str], shape: Sequence[int]) -> Iterator[dict[str, Axes]]:
    """A mesh over groups of each backend, until the context ends.

    Args:
        backends: of torch.distributed.
        shape: replicas, and shards of each.
    """
    made = {backend: _axes(backend, shape) for backend in backends}
    yield made
    for axes in made.values():
        for group in axes.groups.values():
            dist.destroy_process_group(group)


def _axes(backend: str, shape: Sequence[int]) -> Axes:
    replicas, shards = shape
    ranks = torch.arange(replicas * shards).view(replicas, shards)
    row = _own(ranks, backend)
    if replicas == 1:
        return Axes(DeviceMesh.from_group(row, "cpu"), {SHARDS: row})
    column = _own(ranks.T, backend)
    mesh = DeviceMesh.from_group([column, row], "cpu", mesh=ranks, mesh_dim_names=(REPLICAS, SHARDS))
    return Axes(mesh, {SHARDS: row, REPLICAS: column})


def _own(rows: torch.Tensor, backend: str) -> dist.ProcessGroup:
    """The group of a row, for each row; that of this rank."""
    own, _ = dist.new_subgroups_by_enumeration(rows.tolist(), timeout=PATIENCE, backend=backend)
    return member_of(own)
