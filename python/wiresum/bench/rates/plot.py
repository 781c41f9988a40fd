"""A picture of `wiresum bench rates`: what workers send when a link slows down (XAgg, Fig. 21)."""

from __future__ import annotations

from pathlib import Path

from wiresum.bench.result import Report
from wiresum.picture import picture

SIZE_INCHES = (6, 4)
MEGA = 1e6


def draw(report: Report, path: Path) -> None:
    """Draws what all workers send together, every 10 ms, and what the link carries.

    Args:
        report: measured with a step.
        path: of the picture; the ending chooses the format, as .png or .svg.

    Raises:
        SupportError: matplotlib is not installed.
    """
    with picture(path, figsize=SIZE_INCHES) as (_, axes):
        end_s = 0.0
        for result in (result for result in report.results if "sent_bps" in result.extra):
            samples = result.extra["sent_bps"]["all"]
            label = "kernel TCP" if result.extra["engine"] == "tcp" else f"Wiresum ({result.extra['engine']})"
            axes.plot([at for at, _ in samples], [bps / MEGA for _, bps in samples], label=label, linewidth=1)
            end_s = max(end_s, samples[-1][0])
        falls_s = report.parameters["falls_s"]
        rises_s = falls_s + report.parameters["lasts_s"]
        wide, narrow = report.parameters["wide_bps"] / MEGA, report.parameters["narrow_bps"] / MEGA
        link = [
            (0.0, wide),
            (falls_s, wide),
            (falls_s, narrow),
            (rises_s, narrow),
            (rises_s, wide),
            (max(end_s, rises_s), wide),
        ]
        axes.plot(*zip(*link, strict=True), label="the server's link", color="black", linestyle="dashed", linewidth=1)
        axes.set(xlabel="time (s)", ylabel="all workers send (Mbit/s)", xlim=(0, None), ylim=(0, None))
        axes.legend(frameon=False)
