"""`shard_embeddings`: puts sharded modules in the place of plain ones."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import torch.distributed as dist

from torch import nn
from wiresum.errors import SparseError
from wiresum.plan.incarnation import next_incarnation
from wiresum.torch.settings import Settings
from wiresum.torch.sparse import job as jobs
from wiresum.torch.sparse.choice import chosen, refuse
from wiresum.torch.sparse.modules import Plain, Sharded, ShardedEmbedding, ShardedEmbeddingBag, padding_row
from wiresum.torch.sparse.owners import outside_owner
from wiresum.torch.sparse.rows import Client, Rows


def shard_embeddings(
    model: nn.Module,
    job: str | Path | None = None,
    *,
    optimizer: jobs.Optimizer,
    optimizer_kwargs: Mapping[str, Any] | None = None,
    names: Collection[str] | None = None,
    delay: int = 0,
    client: Client | None = None,
) -> Rows:
    """Has the rows of a model's embeddings live at servers, in place: forward pulls them, backward pushes gradients.

    The update happens where a row lives, when backward is over: no optimizer of the program knows the rows. They are no
    parameters, so DDP and `model.parameters()` have the dense rest alone. Call it before DDP wraps the model. A module
    begins with the rows that the job's servers have, whatever its weight was. A padding row keeps the value that rank 0
    has. A module with a property that a sharded one could not keep is refused, and the model stays as it was.

    Args:
        model: whose `nn.Embedding` and `nn.EmbeddingBag` modules are replaced.
        job: path of the job file (`wiresum-sparse-job/1`), or its text; it has a table by the name of each module.
            By default the path in `WIRESUM_SPARSE_JOB`, which `wiresum testbed run --tables` sets.
        optimizer: `torch.optim.SGD`, `Adagrad` or `SparseAdam`, or the name `row-wise-adagrad` or `ftrl`; the job's.
        optimizer_kwargs: its hyperparameters; the job's.
        names: of the modules to replace, as in `model.named_modules()`; by default all.
        delay: rounds that rows are late in training: forward has the rows as they were exactly so many rounds before,
            and needs their `prefetch` so many steps before.
        client: what carries rows in place of a connection to the job's servers.

    Returns:
        The model's rows: `close` leaves the job.

    Raises:
        SparseError: a module cannot be sharded, no job is named, the job does not fit the model, or a server does not
            answer.

    Example:
        rows = shard_embeddings(model, "job.json", optimizer=torch.optim.Adagrad, optimizer_kwargs={"lr": 0.01})
        model = DistributedDataParallel(model)
    """
    modules = chosen(model, names)
    refuse(*outside_owner(model, modules))
    job = job or _named()
    tables = jobs.check(job, modules, jobs.optimizer_of(optimizer, optimizer_kwargs))
    rows = Rows(client or _connected(job), delay)
    paddings = _of_rank_0({name: padding_row(module) for name, module in modules.items()})
    sharded: dict[nn.Module | None, nn.Module] = {
        module: _sharded(module)(module, tables[name], rows, paddings[name]) for name, module in modules.items()
    }
    for parent in list(model.modules()):
        for name, child in parent._modules.items():  # named_children() leaves repeated ones out
            parent._modules[name] = sharded.get(child, child)
    return rows


def _sharded(module: Plain) -> type[Sharded]:
    return ShardedEmbeddingBag if isinstance(module, nn.EmbeddingBag) else ShardedEmbedding


def _named() -> Path:
    job = Settings.from_environment().sparse_job
    if job is None:
        raise SparseError("no sparse job is named: pass the path of its file, or set WIRESUM_SPARSE_JOB")
    return job


def _connected(job: str | Path) -> Client:
    """A client of this rank. All ranks begin together, in an incarnation that rank 0 chooses."""
    from wiresum.sparse.client import SparseClient

    rank = dist.get_rank() if dist.is_initialized() else 0
    return SparseClient.connect(job, rank, incarnation=_of_rank_0(next_incarnation()))


def _of_rank_0(value: Any) -> Any:
    """Return the value that rank 0 has, on every rank."""
    values = [value]
    if dist.is_initialized():
        dist.broadcast_object_list(values, src=0)
    return values[0]
