"""Results side by side, as a picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from wiresum.picture import picture

GROUP_WIDTH = 0.84
"""Part of the distance between two groups of bars."""


def draw(
    path: Path,
    groups: Sequence[str],
    bars: Mapping[str, Sequence[float]],
    bounds: Mapping[str, Sequence[float]],
    ylabel: str,
) -> None:
    """Draws a group of bars for each case, and a mark at each bar's bound.

    Args:
        path: of the picture; the ending chooses the format, as .png or .svg.
        groups: names of the cases.
        bars: for each method, its value in each case; those below zero hang from the line.
        bounds: for some methods, the least possible value in each case.
        ylabel: what the values are.

    Raises:
        SupportError: matplotlib is not installed.
    """
    width = GROUP_WIDTH / len(bars)
    size = (max(6.0, 1.6 * len(groups) + 2), 3.6)
    with picture(path, figsize=size) as (_, axes):
        for index, (name, values) in enumerate(bars.items()):
            centres = [group + (index - (len(bars) - 1) / 2) * width for group in range(len(groups))]
            axes.bar(centres, values, width * 0.92, label=name)
            if name in bounds:
                axes.hlines(
                    bounds[name], [c - width / 2 for c in centres], [c + width / 2 for c in centres], colors="black"
                )
        axes.set(ylabel=ylabel, xticks=range(len(groups)), xticklabels=groups)
        if any(value < 0 for values in bars.values() for value in values):
            axes.axhline(0, color="black", linewidth=0.8)
        else:
            axes.set_ylim(bottom=0)
        # Above the axes, where no bar is.
        axes.legend(frameon=False, fontsize=8, ncols=min(4, len(bars)), loc="lower center", bbox_to_anchor=(0.5, 1.0))
        axes.spines[["top", "right"]].set_visible(False)
