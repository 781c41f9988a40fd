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
        for result in report.results:
            curve = result.extra["curve"]
            left.plot([x for x, _ in curve], [y for _, y in curve], label=result.name, linewidth=1.3)
        left.set(xlabel="time (s)", ylabel="test accuracy", xlim=(0, None))
        left.legend(fontsize=8, frameon=False)
        right.bar([result.name for result in report.results], [result.median for result in report.results])
        right.set(ylabel="images/s in the sums")
        right.tick_params(axis="x", rotation=30)
