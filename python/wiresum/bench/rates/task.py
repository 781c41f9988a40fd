"""What the ranks of `wiresum bench rates` are told; who tells them needs no PyTorch for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from wiresum.bench.task import RankTask


@dataclass(frozen=True)
class Task(RankTask):
    """What to do.

    Attributes:
        elements: float32 values of a tensor.
        warmup_elements: of the first one, which no one measures.
        together: tensors in flight at once.
        rounds: measured, one after the other.
        started: file for the start of each round on the monotonic clock, a line each.
        output: file for rank 0's view: by round and rank, what the counters grew by; and seconds of each round.
    """

    program: ClassVar[str] = "wiresum.bench.rates.worker"

    elements: int
    warmup_elements: int
    together: int
    rounds: int
    started: str
    output: str
