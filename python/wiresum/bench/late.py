"""All-reduces of ranks that have their gradients at different times: what ranks are told, and what they say.

The ranks run `late_worker`; who asks them needs no PyTorch for it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from wiresum.bench.task import RankTask


@dataclass(frozen=True)
class Task(RankTask):
    """What to measure.

    Attributes:
        backend: of the group that sums.
        elements: float32 values, by size to measure.
        starts: seconds at which each rank has its gradient.
        repeats: measured all-reduces of each size.
        output: file for rank 0's view.
    """

    program: ClassVar[str] = "wiresum.bench.late_worker"

    backend: str
    elements: list[int]
    starts: list[float]
    repeats: int
    output: str


@dataclass(frozen=True)
class LateSumsOutcome:
    """All-reduces of one size.

    Attributes:
        seconds: from the common start until the last rank has the sum, of each.
        begins: the common starts, on the machine's monotonic clock.
        deviation: largest one from Gloo's sum at rank 0.
    """

    seconds: list[float]
    begins: list[float]
    deviation: float


def read(output: Path) -> list[LateSumsOutcome]:
    """What rank 0 wrote: one for each size."""
    return [LateSumsOutcome(**one) for one in json.loads(output.read_text())]
