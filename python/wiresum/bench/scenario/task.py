"""What ranks of a scenario that runs live are told; apart from them, as they need PyTorch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from wiresum.bench.task import RankTask

TOLERANCE = 1e-3
"""Relative to the largest sum: block exponents leave some 20 bits, fixed factors say themselves what they leave."""


@dataclass(frozen=True)
class Task(RankTask):
    """What to do.

    Attributes:
        elements: of each collective.
        waits_s: by rank: seconds of computing before each round.
        output: file for rank 0.
    """

    program: ClassVar[str] = "wiresum.bench.scenario.worker"

    elements: int
    waits_s: list[list[float]]
    output: str
