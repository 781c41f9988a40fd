"""A model's tables as its sparse job has them, and whether a job fits a model."""

from __future__ import annotations

import inspect
import json
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import nn
from wiresum import _native
from wiresum.errors import SparseError, WiresumError
from wiresum.sparse.job import job_text
from wiresum.torch.sparse.choice import Plain, chosen

Optimizer = type[torch.optim.Optimizer] | str
"""A class of torch's, or a name, as `row-wise-adagrad` and `ftrl`, of which torch has none."""

NAMES: dict[type[torch.optim.Optimizer], str] = {
    torch.optim.SGD: "sgd",
    torch.optim.Adagrad: "adagrad",
    torch.optim.SparseAdam: "sparse-adam",
}
DEFAULTS: dict[str, dict[str, Any]] = {
    "sgd": {},
    "adagrad": {"lr_decay": 0.0, "eps": 1e-10, "initial_accumulator_value": 0.0},
    "row-wise-adagrad": {"eps": 1e-8},
    "sparse-adam": {"betas": [0.9, 0.999], "eps": 1e-8},
    "ftrl": {"beta": 1.0, "l1": 0.0, "l2": 0.0},
}
"""What a job may leave out, by optimizer; torch's defaults where torch has the optimizer."""
INITIAL = {"normal": 1.0}
"""How rows begin: as torch's embeddings do."""


def optimizer_of(optimizer: Optimizer, kwargs: Mapping[str, Any] | None) -> dict[str, Any]:
    """An optimizer with its hyperparameters, as a job has them.

    Raises:
        SparseError: servers have no such optimizer, or not with these arguments.
    """
    name = optimizer if isinstance(optimizer, str) else NAMES.get(optimizer, optimizer.__name__)
    if name not in DEFAULTS:
        raise SparseError(f"servers have no optimizer {name}; choose one of {', '.join(DEFAULTS)}")
    usual = {} if isinstance(optimizer, str) else {"lr": inspect.signature(optimizer).parameters["lr"].default}
    given = json.loads(json.dumps({"name": name, **DEFAULTS[name], **usual, **(kwargs or {})}))
    try:
        _native.optimizer_state_len(json.dumps(given), 1)
    except WiresumError as error:
        raise SparseError(f"servers cannot step as {name} with {dict(kwargs or {})}: {error}") from None
    return dict(given)


def job_tables(
    model: nn.Module,
    optimizer: Optimizer,
    optimizer_kwargs: Mapping[str, Any] | None = None,
    *,
    names: Collection[str] | None = None,
    seed: int = 0,
    initial: str | Mapping[str, float] | None = None,
) -> list[dict[str, Any]]:
    """The `tables` of a job file (`wiresum-sparse-job/1`) for a model; gradients are averaged, as by DDP.

    Args:
        model: whose embeddings are to be sharded.
        optimizer: a class of torch's, or a name.
        optimizer_kwargs: its hyperparameters.
        names: of the modules, as for `shard_embeddings`.
        seed: of what rows begin with, before their first gradient.
        initial: what rows begin with: `zeros`, `{"uniform": BOUND}` or `{"normal": DEVIATION}`; by default as torch's
            embeddings do.

    Raises:
        SparseError: a module cannot be sharded, or servers have no such optimizer.
    """
    stepped = optimizer_of(optimizer, optimizer_kwargs)
    return [
        {
            "id": number,
            "name": name,
            "rows": {"counted": module.num_embeddings},
            "dim": module.embedding_dim,
            "optimizer": stepped,
            "initial": INITIAL if initial is None else initial if isinstance(initial, str) else dict(initial),
            "seed": seed,
            "is_averaged": True,
        }
        for number, (name, module) in enumerate(chosen(model, names).items())
    ]


def check(job: str | Path, modules: Mapping[str, Plain], optimizer: dict[str, Any]) -> None:
    """Compares a job file with the modules whose rows it is to have.

    Raises:
        SparseError: a table is missing, or has other rows, another dimension or another optimizer; the message names
            it, and says what would fit.
    """
    tables = {table["name"]: table for table in _read(job)["tables"]}
    for name, module in modules.items():
        if name not in tables:
            raise SparseError(f"the job has no table {name}: it has {', '.join(tables)}; `job_tables` makes them")
        table = tables[name]
        stepped = table["optimizer"]
        pairs = {
            "rows": (table["rows"].get("counted", module.num_embeddings), module.num_embeddings),
            "dim": (table["dim"], module.embedding_dim),
            "optimizer": ({**DEFAULTS[stepped["name"]], **stepped}, optimizer),
        }
        for field, (its, wanted) in pairs.items():
            if its != wanted:
                raise SparseError(f"the job's table {name} has {field} {its}, and the model wants {wanted}")


def _read(job: str | Path) -> dict[str, Any]:
    try:
        content: dict[str, Any] = json.loads(job_text(job))
    except ValueError as error:
        raise SparseError(f"{job} is no job file: {error}") from None
    return content
