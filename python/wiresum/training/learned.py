"""What `learning` is asked for, and what it answers; whoever asks needs no PyTorch before it trains."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Training:
    """What is trained: a small network on scikit-learn's handwritten digits.

    Attributes:
        workers: whose gradients are averaged in every round.
        batch_size: images of a worker and round, drawn with replacement.
        learning_rate: of plain SGD.
        rounds: sums of gradients.
        seed: of first weights and draws.
    """

    workers: int
    batch_size: int = 64
    learning_rate: float = 0.1
    rounds: int = 200
    seed: int = 1


@dataclass(frozen=True)
class Learned:
    """After each round, from the first on.

    Attributes:
        losses: of the round's images, smoothed.
        accuracies: share of the test images that are recognised.
    """

    losses: Sequence[float]
    accuracies: Sequence[float]

    def rounds_to(self, accuracy: float) -> int | None:
        """Rounds until this accuracy is first reached; None where it never is.

        Example:
            >>> Learned([2.0, 1.0], [0.5, 0.9]).rounds_to(0.8)
            2
        """
        return next((number for number, one in enumerate(self.accuracies, 1) if one >= accuracy), None)
