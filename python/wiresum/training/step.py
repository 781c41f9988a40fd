"""One step of training."""

from __future__ import annotations

import torch
from torch import nn


def step(model: nn.Module, optimizer: torch.optim.Optimizer, images: torch.Tensor, labels: torch.Tensor) -> float:
    """One optimisation step; returns this rank's loss."""
    optimizer.zero_grad(set_to_none=True)
    loss = nn.functional.cross_entropy(model(images), labels)
    torch.autograd.backward(loss)
    optimizer.step()
    return float(loss.detach())
