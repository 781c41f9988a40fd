"""Promised beside seen, as a picture: a row for each job, with its turn above and what came of it below."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from wiresum.picture import BLUE, GREEN, GREY, ORANGE, picture
from wiresum.turns.report import Comparison
from wiresum.turns.stage import Seen

PROMISED, SEEN, LIGHT = GREY, {"switch": GREEN, "server": BLUE}, ORANGE
WIDTH_IN, ROW_IN, MOST_IN = 9.0, 0.4, 40.0
BAR = 0.38


def draw(runs: Sequence[tuple[Comparison, Seen]], path: Path) -> None:
    """Writes the picture: runs one below the other, over the same seconds.

    Raises:
        SupportError: matplotlib is not installed, or the file cannot be written.
    """
    rows = sum(len(comparison.jobs) + 2 for comparison, _ in runs)
    size = (WIDTH_IN, min(MOST_IN, ROW_IN * rows + 1))
    heights = [len(comparison.jobs) + 1 for comparison, _ in runs]
    with picture(path, rows=len(runs), figsize=size, sharex=True, squeeze=False, height_ratios=heights) as (_, grid):
        for axes, (comparison, seen) in zip((row[0] for row in grid), runs, strict=True):
            _jobs(axes, comparison)
            _darkness(axes, seen)
            axes.set_title(comparison.name, fontsize=8)
        grid[-1][0].set_xlabel("seconds")
        grid[0][0].legend(handles=_legend(), fontsize=6, loc="lower right")


def _jobs(axes: Any, comparison: Comparison) -> None:
    for row, job in enumerate(comparison.jobs):
        for offset, (begin_s, end_s), colour in (
            (-BAR / 2, job.promised_s, PROMISED),
            (BAR / 2, job.seen_s, SEEN[job.by]),
        ):
            axes.barh(row + offset, max(0.0, end_s - begin_s), BAR, left=begin_s, color=colour)
        axes.plot(job.arrival_s, row, marker="|", color="black")
    axes.set_yticks(range(len(comparison.jobs)), [job.job for job in comparison.jobs], fontsize=6)
    axes.invert_yaxis()


def _darkness(axes: Any, seen: Seen) -> None:
    for step in seen.steps:
        if step.added or step.removed:
            axes.axvspan(step.order_s, step.lit_s, color=LIGHT, alpha=0.5)


def _legend() -> list[Any]:
    from matplotlib.patches import Patch

    made = [Patch(color=PROMISED, label="promised")]
    made += [Patch(color=colour, label=f"seen, summed by a {by}") for by, colour in SEEN.items()]
    return [*made, Patch(color=LIGHT, alpha=0.5, label="circuits change")]
