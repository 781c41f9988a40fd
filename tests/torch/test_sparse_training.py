"""Models with sparse gradients under DDP, as people write them: over an aggregator beside over Gloo."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from world import World

import torch
from torch import nn
from wiresum.torch import Reason, report

STEPS = 4
BATCH = 32
ROWS = 500
WIDTH = 8
TOLERANCE = 1e-4
"""Relative. Both sums round, differently, and Adagrad divides by what may be small."""

OPTIMIZERS: dict[str, Callable[[Any], torch.optim.Optimizer]] = {
    "SGD": lambda parameters: torch.optim.SGD(parameters, lr=0.1),
    "Adagrad": lambda parameters: torch.optim.Adagrad(parameters, lr=0.05, eps=1e-4),
    "SparseAdam": lambda parameters: torch.optim.SparseAdam(list(parameters), lr=0.01, eps=1e-4),
}


class Recommender(nn.Module):
    """A user's embedding, the mean of a bag's embeddings, and a dense layer."""

    def __init__(self) -> None:
        super().__init__()
        self.users = nn.Embedding(ROWS, WIDTH, padding_idx=0, sparse=True)
        self.items = nn.EmbeddingBag(ROWS, WIDTH, mode="mean", sparse=True)
        self.dense = nn.Linear(2 * WIDTH, 1)

    def forward(self, users: torch.Tensor, items: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.dense(torch.cat([self.users(users), self.items(items)], dim=1))
        return result


def train(group: Any, optimizer: str) -> list[torch.Tensor]:
    """The parameters after some steps; rank 1 looks up nothing but the padding in its users."""
    torch.manual_seed(0)
    model = DistributedDataParallel(Recommender(), process_group=group)
    tables = [model.module.users.weight, model.module.items.weight]
    optimizers = [OPTIMIZERS[optimizer](tables), torch.optim.SGD(model.module.dense.parameters(), lr=0.1)]
    random = torch.Generator().manual_seed(dist.get_rank())
    for _ in range(STEPS):
        users = torch.randint(1, ROWS // 4, (BATCH,), generator=random) * int(dist.get_rank() != 1)
        items = torch.randint(0, ROWS // 4, (BATCH, 5), generator=random)
        clicks = torch.randint(0, 2, (BATCH, 1), generator=random).float()
        loss = nn.functional.binary_cross_entropy_with_logits(model(users, items), clicks)
        for each in optimizers:
            each.zero_grad()
        loss.backward()
        for each in optimizers:
            each.step()
    return [parameter.detach() for parameter in model.parameters()]


def both_ways(optimizer: str) -> tuple[list[torch.Tensor], list[torch.Tensor], int]:
    before = rows_summed()
    ours = train(dist.group.WORLD, optimizer)
    summed = rows_summed() - before
    gloo = dist.new_group(backend="gloo")
    theirs = train(gloo, optimizer)
    dist.destroy_process_group(gloo)
    return ours, theirs, summed


def rows_summed() -> int:
    return sum(row.rows_of_all for row in report().groups[0].rows if row.reason in {Reason.SUMMED, Reason.GATHERED})


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_ddp_with_sparse_tables_trains_as_over_gloo(networked: World, optimizer: str) -> None:
    results = networked.run(both_ways, optimizer)
    for ours, theirs, summed in results:
        assert summed > STEPS * ROWS // 8
        for mine, its, first in zip(ours, theirs, results[0][0], strict=True):
            torch.testing.assert_close(mine, its, rtol=TOLERANCE, atol=TOLERANCE)
            assert torch.equal(mine, first)  # ranks never drift apart
