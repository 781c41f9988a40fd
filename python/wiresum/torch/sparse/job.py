"""A model's tables as its sparse job has them, and whether a job fits a model."""

from __future__ import annotations

import inspect
import json
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, get_args

import torch
from torch import nn
from wiresum import _native
from wiresum.errors import SparseError, WiresumError
from wiresum.plan.tables import OptimizerName
from wiresum.sparse.job import job_text
from wiresum.torch.sparse.choice import chosen
from wiresum.torch.sparse.modules import Plain

Optimizer = type[torch.optim.Optimizer] | str
"""A class of torch's, or a name, as `row-wise-adagrad` and `ftrl`, of which torch has none."""

NAMES: dict[type[torch.optim.Optimizer], str] = {
    torch.optim.SGD: "sgd",
    torch.optim.Adagrad: "adagrad",
    torch.optim.SparseAdam: "sparse-adam",
}
INITIAL = {"normal": 1.0}
"""How rows begin: as torch's embeddings do."""


def optimizer_of(optimizer: Optimizer, kwargs: Mapping[str, Any] | None) -> dict[str, Any]:
    """An optimizer with its hyperparameters, as a job has them.

    Raises:
        SparseError: servers have no such optimizer, or not with these arguments.
    """
    name = optimizer if isinstance(optimizer, str) else NAMES.get(optimizer, optimizer.__name__)
    if name not in get_args(OptimizerName):
        raise SparseError(f"servers have no optimizer {name}; choose one of {', '.join(get_args(OptimizerName))}")
    usual = {} if isinstance(optimizer, str) else {"lr": inspect.signature(optimizer).parameters["lr"].default}
    try:
        return whole({"name": name, **usual, **(kwargs or {})})
    except WiresumError as error:
        raise SparseError(f"servers cannot step as {name} with {dict(kwargs or {})}: {error}") from None


def whole(optimizer: Mapping[str, Any]) -> dict[str, Any]:
    """An optimizer with all its hyperparameters: servers say what is usual where one is left out.

    Raises:
        WiresumError: servers have no such optimizer, or not with these hyperparameters.
    """
    complete: dict[str, Any] = json.loads(_native.whole_optimizer(json.dumps(dict(optimizer))))
    return complete


def job_tables(
    model: nn.Module,
    optimizer: Optimizer,
    optimizer_kwargs: Mapping[str, Any] | None = None,
    *,
    names: Collection[str] | None = None,
    seed: int = 0,
    loads: int | None = None,
    initial: str | Mapping[str, float] | None = None,
) -> list[dict[str, Any]]:
    """The `tables` of a job file (`wiresum-sparse-job/1`) for a model; gradients are averaged, as by DDP.

    Args:
        model: whose embeddings are to be sharded.
        optimizer: a class of torch's, or a name.
        optimizer_kwargs: its hyperparameters.
        names: of the modules, as for `shard_embeddings`.
        seed: of what rows begin with, before their first gradient.
        loads: steps that rows have had which the job will load: the `steps` of a checkpoint, 0 for those of a plain
            model; None if it loads nothing.
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
            "type": type_of(module),
            "optimizer": stepped,
            "initial": INITIAL if initial is None else initial if isinstance(initial, str) else dict(initial),
            "seed": seed,
            "is_averaged": True,
            **({} if loads is None else {"steps_before": loads - 1}),  # loading takes a round
        }
        for number, (name, module) in enumerate(chosen(model, names).items())
    ]


def type_of(module: Plain) -> str:
    """The type of a module's rows, as a job has it: `float32`, `float16` or `bfloat16`."""
    return str(module.weight.dtype).removeprefix("torch.")


def check(job: str | Path, modules: Mapping[str, Plain], optimizer: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Compares a job file with the modules whose rows it is to have.

    Returns:
        The tables by name.

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
            "type": (table.get("type", "float32"), type_of(module)),
            "optimizer": (whole(stepped), optimizer),
        }
        for field, (its, wanted) in pairs.items():
            if its != wanted:
                raise SparseError(
                    f"the job's table {name} has {field} {its}, and the model wants {wanted}; plan the job anew with "
                    "`job_tables` of this model, or correct the model"
                )
    return tables


def _read(job: str | Path) -> dict[str, Any]:
    try:
        content: dict[str, Any] = json.loads(job_text(job))
    except ValueError as error:
        raise SparseError(f"{job} is no job file ({error}); check the path") from None
    return content
