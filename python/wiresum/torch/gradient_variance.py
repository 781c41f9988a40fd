"""Measures σ², the variance of a worker's gradient, while a model trains (GOAT, Eq. (24))."""

from __future__ import annotations

import torch.distributed as dist

import torch


class GradientVariance:
    """Compares each rank's gradient with the mean of all: Σ‖gᵢ − ḡ‖² / (n − 1), which is σ² in the mean.

    Example: one more line before DDP's or one's own all-reduce, one after it, now and then.

        variance = GradientVariance()
        variance.note_own(gradient)
        dist.all_reduce(gradient, op=dist.ReduceOp.AVG)
        variance.note_mean(gradient)
        print(variance.estimate())
    """

    def __init__(self, group: dist.ProcessGroup | None = None) -> None:
        self._group = group
        self._own = 0.0
        self._mean = 0.0
        self._steps = 0

    def note_own(self, gradient: torch.Tensor) -> None:
        """This rank's gradient of a step, before it is summed; of any shape."""
        self._own += float(gradient.double().square().sum())

    def note_mean(self, gradient: torch.Tensor) -> None:
        """The mean of all ranks' gradients of the same step."""
        self._mean += float(gradient.double().square().sum())
        self._steps += 1

    def estimate(self) -> float:
        """σ² over the steps noted; the same on every rank. All ranks call this together.

        Raises:
            ValueError: no step was noted, or there is one rank.
        """
        ranks = dist.get_world_size(self._group)
        if not self._steps or ranks == 1:
            raise ValueError(
                f"{self._steps} steps of {ranks} ranks have no variance; note at least one step, before and after its "
                "all-reduce, on at least two ranks"
            )
        squares = torch.tensor([self._own], dtype=torch.float64)  # Gloo's, as float64 always is
        dist.all_reduce(squares, group=self._group)
        return (float(squares) - ranks * self._mean) / (ranks - 1) / self._steps
