"""A model with every way to look rows up, its batches, and a step of its training."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

ROWS = 40
WIDTH = 6
BATCH = 16
STEPS = 5

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
