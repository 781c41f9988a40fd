"""A model with every way to look rows up, its batches, a step of its training, and its sharded form."""

from __future__ import annotations

import json
from typing import Any

import torch.distributed as dist
from row_servers import Servers

import torch
from torch import nn
from wiresum.sparse.client import SparseClient
from wiresum.torch.sparse import Rows, job_tables, shard_embeddings

ROWS = 40
WIDTH = 6
BATCH = 16
STEPS = 5
PADDING = 1.5
"""Value of the padding rows, as a program may set it. A new module has zeros."""

OPTIMIZERS: dict[type[torch.optim.Optimizer], dict[str, Any]] = {
    torch.optim.SGD: {"lr": 0.1},
    torch.optim.Adagrad: {"lr": 0.05, "eps": 1e-6},
    torch.optim.SparseAdam: {"lr": 0.02, "betas": (0.8, 0.99)},
}


class Model(nn.Module):
    """Every way to look rows up, and a dense layer."""

    def __init__(self, mode: str = "sum") -> None:
        super().__init__()
        sparse = mode != "max"  # which plain bags cannot have
        self.single = nn.Embedding(ROWS, WIDTH, padding_idx=3, sparse=True)
        self.bag = nn.EmbeddingBag(ROWS, WIDTH, mode=mode, sparse=sparse, padding_idx=0)
        self.ends = nn.EmbeddingBag(ROWS, WIDTH, mode=mode, sparse=sparse, include_last_offset=True)
        self.dense = nn.Linear(3 * WIDTH, 1)
        for each in (self.single, self.bag):
            each.weight.data[each.padding_idx] = PADDING

    def forward(self, batch: dict[str, torch.Tensor | None]) -> torch.Tensor:
        single = self.single(batch["single"]).mean(dim=1)
        bag = self.bag(batch["bag"], per_sample_weights=batch["weights"])
        ends = self.ends(batch["ends"], batch["offsets"])
        result: torch.Tensor = self.dense(torch.cat([single, bag, ends], dim=1))
        return result


def batches(*, weighted: bool, count: int = STEPS, seed: int = 5) -> list[dict[str, torch.Tensor | None]]:
    """Two-dimensional and flat inputs; some bags are empty, and some indices padding."""
    random = torch.Generator().manual_seed(seed)
    made: list[dict[str, torch.Tensor | None]] = []
    for _ in range(count):
        lengths = torch.randint(0, 4, (BATCH,), generator=random)
        made.append(
            {
                "single": torch.randint(0, ROWS, (BATCH, 2), generator=random),
                "bag": torch.randint(0, ROWS, (BATCH, 3), generator=random),
                "weights": torch.rand(BATCH, 3, generator=random) if weighted else None,
                "ends": torch.randint(0, ROWS, (int(lengths.sum()),), generator=random),
                "offsets": torch.cat([torch.zeros(1, dtype=torch.int64), lengths.cumsum(0)]),
            }
        )
    return made


def step(model: nn.Module, batch: Any, *optimizers: torch.optim.Optimizer) -> float:
    loss = (model(batch) - 1).square().mean()
    for each in optimizers:
        each.zero_grad()
    loss.backward()
    for each in optimizers:
        each.step()
    return loss.item()


def tables_of(model: nn.Module) -> dict[str, nn.Parameter]:
    modules = model.named_modules()
    return {name: each.weight for name, each in modules if isinstance(each, nn.Embedding | nn.EmbeddingBag)}


def sharded(
    model: nn.Module,
    optimizer: type[torch.optim.Optimizer],
    kwargs: dict[str, Any],
    group: dist.ProcessGroup | None = None,
    delay: int = 0,
) -> tuple[nn.Module, Rows, Servers]:
    """The same model with its rows at a double of the servers."""
    job = json.dumps({"format": "wiresum-sparse-job/1", "tables": job_tables(model, optimizer, kwargs)})
    servers = Servers({name: each.detach() for name, each in tables_of(model).items()}, optimizer, group, **kwargs)
    client = SparseClient(servers)
    rows = shard_embeddings(model, job, optimizer=optimizer, optimizer_kwargs=kwargs, delay=delay, client=client)
    return model, rows, servers
