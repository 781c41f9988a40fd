"""FTRL-proximal as an optimizer of torch, which has none: what the rival without servers steps with."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch


class Ftrl(torch.optim.Optimizer):
    """The arithmetic of the servers (McMahan et al., KDD 2013), for sparse gradients.

    Args:
        parameters: tables.
        lr: α.
        beta: β.
        l1: λ₁.
        l2: λ₂.
    """

    def __init__(
        self, parameters: Iterable[torch.Tensor], *, lr: float, beta: float = 1.0, l1: float = 0.0, l2: float = 0.0
    ) -> None:
        super().__init__(parameters, {"lr": lr, "beta": beta, "l1": l1, "l2": l2})

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        """Changes the rows that have a gradient."""
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    self._step(parameter, parameter.grad.coalesce(), group)

    def _step(self, weights: torch.Tensor, gradient: torch.Tensor, group: dict[str, Any]) -> None:
        state = self.state[weights]
        if not state:
            state["z"], state["n"] = torch.zeros_like(weights), torch.zeros_like(weights)
        rows, values = gradient.indices()[0], gradient.values()
        before = state["n"][rows]
        grown = before + values.square()
        z = state["z"][rows] + values - (grown.sqrt() - before.sqrt()) / group["lr"] * weights[rows]
        beyond = z.abs() - group["l1"]
        proximal = -beyond.copysign(z) / ((group["beta"] + grown.sqrt()) / group["lr"] + group["l2"])
        state["z"][rows], state["n"][rows] = z, grown
        weights[rows] = torch.where(beyond > 0, proximal, 0.0)
