"""Rows in checkpoints: each rank saves and loads a part of every table, whatever the number of servers and workers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Shard

import torch
from torch import nn
from wiresum.torch.sparse.modules import Sharded, Span


def sharded_state_dict(model: nn.Module) -> dict[str, Any]:
    """A state for `torch.distributed.checkpoint`: of each table this rank's part, with the optimizer's state.

    All ranks call it together, between two steps. It has everything that `model.state_dict()` has, but of a sharded
    module `users` the entries `users.weight` and `users.optimizer_state` (DTensors [rows, …], divided by rows) and
    `users.steps`, the steps that its rows have had. `model.load_state_dict` takes it, and so it takes the state of a
    plain model.

    Args:
        model: with sharded modules, inside DDP or not.

    Example:
        dcp.save(sharded_state_dict(model), checkpoint_id=path)
        ...
        state = sharded_state_dict(model)
        dcp.load(state, checkpoint_id=path)
        model.load_state_dict(state)
    """
    modules = [module for module in model.modules() if isinstance(module, Sharded)]
    for module in modules:
        module.saves = _part
    try:
        state: dict[str, Any] = model.state_dict()
    finally:
        for module in modules:
            module.saves = None
    return state


def steps_of(state: Mapping[str, Any]) -> int:
    """Steps that the rows of a sharded state have had, for `job_tables(loads=…)`; 0 for that of a plain model."""
    return max((int(value) for name, value in state.items() if name.rpartition(".")[2] == "steps"), default=0)


def _part(module: Sharded) -> dict[str, Any]:
    """What this rank saves of a table."""
    span = Span.of_rank(module.num_embeddings)
    stored = module.stored(span)
    parts = {"weight": stored[:, : module.embedding_dim]}
    if stored.shape[1] > module.embedding_dim:
        parts["optimizer_state"] = stored[:, module.embedding_dim :]
    whole = {name: _whole(part.contiguous(), module.num_embeddings) for name, part in parts.items()}
    return {**whole, "steps": torch.tensor(module.steps)}


def _whole(part: torch.Tensor, rows: int) -> torch.Tensor:
    if not dist.is_initialized():
        return part
    mesh = DeviceMesh.from_group(dist.distributed_c10d._get_default_group(), "cpu")
    shape = torch.Size([rows, part.shape[1]])
    return DTensor.from_local(part, mesh, [Shard(0)], run_check=False, shape=shape, stride=(part.shape[1], 1))
