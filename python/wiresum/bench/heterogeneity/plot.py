"""A picture of `wiresum bench heterogeneity`: rates over time, predicted and measured (XAgg, Fig. 1)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from wiresum.bench.result import Report
from wiresum.picture import picture

COLUMN_INCHES, ROW_INCHES = 4.2, 2.6
MEGA = 1e6


def draw(report: Report, path: Path) -> None:
    """Draws the rate at which every worker sends: a column for each method, predicted above, measured below.

    Args:
        report: measured with `rates`.
        path: of the picture; the ending chooses the format, as .png or .svg.

    Raises:
        SupportError: matplotlib is not installed.
    """
    count = len(report.results)
    size = (COLUMN_INCHES * count, 2 * ROW_INCHES)
    with picture(path, 2, count, figsize=size, sharex=True, sharey=True, squeeze=False) as (_, axes):
        for column, result in enumerate(report.results):
            above, below = axes[0][column], axes[1][column]
            _lines(above, {host: _corners(spans) for host, spans in result.extra["predicted_bps"].items()})
            _lines(below, result.extra["measured_bps"])
            above.set(title=f"{result.name}: predicted {result.extra['bound_s']:.2f} s")
            below.set(title=f"measured {result.runs[-1]:.2f} s", xlabel="time (s)")
        for row in axes:
            row[0].set(ylabel="sends (Mbit/s)", xlim=(0, None), ylim=(0, None))
        axes[0][-1].legend(fontsize=7, frameon=False)


def _lines(axes: Any, points: dict[str, list[tuple[float, float]]]) -> None:
    for host, line in sorted(points.items()):
        axes.plot([x for x, _ in line], [y / MEGA for _, y in line], label=host, linewidth=1.3)


def _corners(spans: list[tuple[float, float, float]]) -> list[tuple[float, float]]:
    """Steps as a line; nothing is sent before, between and after them."""
    corners: list[tuple[float, float]] = []
    for begin, end, rate in spans:
        if not corners or corners[-1][0] < begin:
            corners += [(corners[-1][0] if corners else begin, 0.0), (begin, 0.0)]
        corners += [(begin, rate), (end, rate)]
    return [*corners, (corners[-1][0], 0.0)] if corners else []
