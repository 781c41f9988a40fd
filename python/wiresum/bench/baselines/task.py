"""What a rank of a run is told."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from wiresum.bench.task import RankTask


@dataclass(frozen=True)
class Task(RankTask):
    """What to do.

    Attributes:
        servers: `address:port` of each.
        elements: float32 values.
        runs: all-reduces that count.
        warmups: all-reduces before.
        delays_s: by rank; nothing beyond the end.
        output: file for rank 0's view.
    """

    program: ClassVar[str] = "wiresum.bench.baselines.worker"

    servers: list[str]
    elements: int
    runs: int
    warmups: int
    delays_s: list[float]
    output: str
