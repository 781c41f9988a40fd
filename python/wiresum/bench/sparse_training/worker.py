"""One rank of `wiresum bench sparse-training`: it trains a model by each method; rank 0 writes what it saw.

One process trains by all of them, as each start of PyTorch takes seconds of CPU.

The benchmark starts it with RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT, and a JSON object on its command line.
"""

from __future__ import annotations

import json
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch.distributed as dist
from torch.distributed.distributed_c10d import PrefixStore
from torch.distributed.rendezvous import rendezvous
from torch.nn.parallel import DistributedDataParallel

import torch
from torch import nn
from wiresum.bench.sparse_training.ftrl import Ftrl
from wiresum.bench.sparse_training.models import CASES, Batch, Case, Model, batch_of
from wiresum.bench.sparse_training.push_pull import PushPullClient
from wiresum.bench.task import RankTask
from wiresum.sparse.initial import initial_rows
from wiresum.sparse.trace import Trace
from wiresum.torch.sparse import shard_embeddings

PRODUCT, PUSH_PULL, GLOO = "wiresum", "push_pull", "gloo"
DENSE_RATE = 0.05


@dataclass(frozen=True)
class Task(RankTask):
    """What to train, and how.

    Attributes:
        methods: `wiresum`, or rivals, in the order in which they train.
        model: of `CASES`.
        scale: of the tables.
        batch: samples of a rank in a step.
        steps: how many.
        job: path of the sparse job's file; tables of the rival without servers begin as it says, too.
        output: file for rank 0's view of each method.
    """

    methods: list[str]
    model: str
    scale: float
    batch: int
    steps: int
    job: str
    output: str


def main() -> None:
    """Trains, and writes losses and times."""
    task = Task.told()
    torch.set_num_threads(1)
    case = CASES[task.model]
    trace = case.trace(task.scale, task.batch)
    store, rank, ranks = next(rendezvous("env://"))
    views = {}
    for method in task.methods:
        if rank == 0:
            print(f"{task.model}, {method}", flush=True)
        backend = PRODUCT if method == PRODUCT else GLOO
        dist.init_process_group(backend, store=PrefixStore(method, store), rank=rank, world_size=ranks)
        views[method] = _train_by(method, task, case, trace)
        dist.destroy_process_group()
    if rank == 0:
        Path(task.output).write_text(json.dumps(views), encoding="utf-8")


def _train_by(method: str, task: Task, case: Case, trace: Trace) -> dict[str, Any]:
    """One training from its beginning; losses are means over all ranks."""
    torch.manual_seed(0)
    model = case.make(trace)
    rank, ranks = dist.get_rank(), dist.get_world_size()
    with ExitStack() as stack:
        optimizers, is_sharded = _tables(method, model, case, Path(task.job), stack)
        if any(True for _ in model.parameters()):
            optimizers += [torch.optim.SGD(_dense(model), lr=DENSE_RATE)] if _dense(model) else []
            wrapped: nn.Module = DistributedDataParallel(model)
        else:
            wrapped = model
        batches = (batch_of(trace, step, rank, ranks) for step in range(task.steps + 1))
        view = _train(wrapped, model if is_sharded else None, optimizers, batches, task.steps)
    return {**view, "losses": _means(view["losses"])}


def _tables(
    method: str, model: Model, case: Case, job: Path, stack: ExitStack
) -> tuple[list[torch.optim.Optimizer], bool]:
    """Puts tables where the method has them; their optimizers in this process, and whether they are elsewhere."""
    if method != GLOO:
        client: Any = PushPullClient(job) if method == PUSH_PULL else None
        rows = shard_embeddings(model, job, optimizer=case.optimizer, optimizer_kwargs=case.settings, client=client)
        stack.enter_context(rows)
        return [], True
    specs = json.loads(job.read_text(encoding="utf-8"))["tables"]
    tables = list(model.tables.values())
    for table, spec in zip(tables, specs, strict=True):
        weights = initial_rows(spec, np.arange(spec["rows"]["counted"]))
        table.weight = nn.Parameter(torch.from_numpy(weights))
    kind: Any = Ftrl if isinstance(case.optimizer, str) else case.optimizer
    return [kind([table.weight for table in tables], **case.settings)], False


def _dense(model: Model) -> list[nn.Parameter]:
    of_tables = {id(each) for each in model.tables.parameters()}
    return [each for each in model.parameters() if id(each) not in of_tables]


def _train(
    model: nn.Module, sharded: Model | None, optimizers: list[torch.optim.Optimizer], batches: Any, steps: int
) -> dict[str, Any]:
    """Losses of this rank and seconds of each step; the next batch is drawn while communication goes on."""
    losses, seconds = [], []
    batch: Batch = next(batches)
    if sharded:
        sharded.prefetch(batch)
    dist.barrier()
    for _ in range(steps):
        begun = time.perf_counter()
        for each in optimizers:
            each.zero_grad()
        loss = model(batch)
        batch = next(batches)
        if sharded:
            sharded.prefetch(batch)
        loss.backward()
        for each in optimizers:
            each.step()
        losses.append(loss.item())
        seconds.append(time.perf_counter() - begun)
    return {"losses": losses, "seconds": seconds}


def _means(losses: list[float]) -> list[float]:
    """Losses over all ranks' samples."""
    everyone: list[list[float]] = [[] for _ in range(dist.get_world_size())]
    dist.all_gather_object(everyone, losses)
    return [float(np.mean(each)) for each in zip(*everyone, strict=True)]


if __name__ == "__main__":
    main()
