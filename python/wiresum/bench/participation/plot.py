"""A picture of `wiresum bench async`: accuracy over time, and speed."""

from __future__ import annotations

from pathlib import Path

from wiresum.bench.result import Report
from wiresum.picture import picture

SIZE_INCHES = (8.4, 3.4)


def draw(report: Report, path: Path) -> None:
    """Draws what GOAT's Figs. 11 and 12 show.

    Args:
        report: of the benchmark.
        path: of the picture; the ending chooses the format, as .png or .svg.

    Raises:
        SupportError: matplotlib is not installed.
    """
    with picture(path, columns=2, figsize=SIZE_INCHES, gridspec_kw={"width_ratios": [3, 1]}) as (_, (left, right)):
        for index, result in enumerate(report.results):
            for number, curve in enumerate(result.extra["curves"]):
                label = result.name if number == 0 else None
                width, alpha = (1.3, 1.0) if number == 0 else (0.8, 0.4)
                places = [x for x, _ in curve], [y for _, y in curve]
                left.plot(*places, color=f"C{index}", label=label, linewidth=width, alpha=alpha)
        left.set(xlabel="time (s)", ylabel="test accuracy", xlim=(0, None))
        left.legend(fontsize=8, frameon=False)
        for index, result in enumerate(report.results):
            below, above = result.median - min(result.runs), max(result.runs) - result.median
            right.bar([result.name], [result.median], yerr=[[below], [above]], color=f"C{index}", capsize=3)
        right.set(ylabel="images/s in the sums")
        right.tick_params(axis="x", rotation=30)
