"""What the ranks of `wiresum bench async` are told, and what they say; who asks them needs no PyTorch for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from wiresum.bench.task import RankTask


@dataclass(frozen=True)
class Task(RankTask):
    """What to train.

    Attributes:
        method: `sync`, `ksgd` or `goat_async`.
        rounds: sums of gradients.
        batch_size: images per rank and gradient.
        learning_rate: of plain SGD.
        delay_s: what a delay of 1 is.
        deviation: σ of the delays, which are normal about 0.5 and cut off at 0 and 1.
        target: ε in units of σ² of the gradient.
        search_every: rounds between two choices of K.
        output: file for rank 0's view.
        seed: of first weights, batches and delays.
    """

    program: ClassVar[str] = "wiresum.bench.participation.worker"

    method: str
    rounds: int
    batch_size: int
    learning_rate: float
    delay_s: float
    deviation: float
    target: float
    search_every: int
    output: str
    seed: int


@dataclass(frozen=True)
class TrainingOutcome:
    """What a training did, as rank 0 saw it.

    Attributes:
        seconds: of the rounds.
        samples: images in the gradients that were summed.
        curve: seconds and test accuracy.
        variance: σ² of a rank's gradient.
        counts: K, where it was chosen, by round.
        ranks_per_sum: mean number of ranks in a sum.
        is_same_everywhere: all ranks have the same model at the end, bit for bit.
    """

    seconds: float
    samples: float
    curve: list[tuple[float, float]]
    variance: float
    counts: list[tuple[int, int]]
    ranks_per_sum: float
    is_same_everywhere: bool
