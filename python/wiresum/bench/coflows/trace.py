"""The coflows of a benchmark: Facebook's, from a folder that has the trace, or made ones of its format."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

from wiresum.errors import WorkloadError
from wiresum.workload.coflows import coflows
from wiresum.workload.model import Workload

FILE = "FB2010-1Hr-150-0.txt"
"""The file's name in github.com/coflow/coflow-benchmark."""
RACKS = 150
MEAN_GAP_MS = 6000
"""Mean gap of Facebook's trace: 526 coflows in an hour."""
MOST_MADE = 526
RACKS_TAIL, BYTES_TAIL = 0.7, 0.6
"""Exponents of Pareto's law: most coflows are small, and few have nearly all bytes."""


def made(count: int, seed: int = 1) -> str:
    """A trace of the format with as many coflows."""
    chance = random.Random(seed)
    lines = [f"{RACKS} {count}"]
    now_ms = 0
    for number in range(1, count + 1):
        now_ms += round(chance.expovariate(1 / MEAN_GAP_MS))
        mappers, reducers = (min(RACKS, int(chance.paretovariate(RACKS_TAIL))) for _ in range(2))
        sources = chance.sample(range(RACKS), mappers)
        sinks = [f"{rack}:{chance.paretovariate(BYTES_TAIL):.1f}" for rack in chance.sample(range(RACKS), reducers)]
        lines.append(" ".join(map(str, (number, now_ms, mappers, *sources, reducers, *sinks))))
    return "\n".join(lines)


def read(data_dir: Path | None, units: Sequence[str]) -> tuple[str, Workload]:
    """Where the coflows come from, and they.

    Args:
        data_dir: the folder with the trace, or None.
        units: names of the units that racks are folded on.

    Raises:
        WorkloadError: the folder does not have the trace, or the file is none.
    """
    if data_dir is None:
        return "made coflows of the trace's format", coflows(made(MOST_MADE), units)
    try:
        text = (data_dir / FILE).read_text(encoding="utf-8")
    except OSError as missing:
        problem = f"{data_dir} does not have {FILE} ({missing}); it is in the repository coflow/coflow-benchmark"
        raise WorkloadError(problem) from None
    return "the trace", coflows(text, units)
