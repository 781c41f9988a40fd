"""Methods under growing asynchrony, as curves: a panel for each quantity."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from wiresum.bench.asynchrony import AFTER, CLOSED_FORMS, LINKS, ROUNDS, SERVER, SUMMED
from wiresum.bench.result import Report, Result
from wiresum.errors import SupportError

PANELS = {
    SERVER: "into the parameter server\n(models a round)",
    LINKS: "over all links\n(models a round)",
    SUMMED: "not received by the server\n(% of gradients)",
    AFTER: "after the last gradient\n(ms)",
    ROUNDS: "rounds a second",
}
MARKERS = "osD^vPX*<>"
DODGE = 0.005
"""Between one curve and the next: some methods lie on each other."""
DPI = 150


def draw(report: Report, path: Path) -> None:
    """Draws medians as curves, with the range over seeds behind them.

    Args:
        report: of `wiresum bench asynchrony`.
        path: of the picture; the ending chooses the format, as .png or .svg.

    Raises:
        SupportError: matplotlib is not installed, or the file cannot be written.
    """
    try:
        import matplotlib as mpl
    except ImportError:
        raise SupportError("drawing needs matplotlib; install it with `pip install matplotlib`") from None
    mpl.use("Agg")
    import matplotlib.pyplot as plt

    figure, grid = plt.subplots(2, 3, figsize=(11.5, 6.4), layout="constrained")
    *panels, legend = grid.ravel()
    for axes, (quantity, label) in zip(panels, PANELS.items(), strict=True):
        _curves(axes, [result for result in report.results if result.extra["quantity"] == quantity])
        axes.set_ylabel(label, fontsize=9)
        axes.set_xlabel("standard deviation of computing times (of their mean)", fontsize=8)
        axes.set_ylim(bottom=0)
        axes.tick_params(labelsize=8)
        axes.spines[["top", "right"]].set_visible(False)
    legend.axis("off")
    handles, labels = panels[-1].get_legend_handles_labels()
    legend.legend(handles, labels, loc="center", frameon=False, fontsize=9)
    try:
        figure.savefig(path, dpi=DPI)
    except (OSError, ValueError) as refused:
        raise SupportError(f"{path} cannot be drawn ({refused}); give a path that ends in .png or .svg") from None
    finally:
        plt.close(figure)


def _curves(axes: Any, results: Sequence[Result]) -> None:
    methods = list(dict.fromkeys(result.extra["method"] for result in results))
    for index, method in enumerate(methods):
        own = [result for result in results if result.extra["method"] == method]
        sigmas = [result.extra["deviation"] + DODGE * (index - len(methods) / 2) for result in own]
        is_computed = method in CLOSED_FORMS
        (line,) = axes.plot(
            sigmas, [result.median for result in own], marker=MARKERS[index % len(MARKERS)], markersize=4,
            linewidth=1.2, linestyle="--" if is_computed else "-",
            label=f"{method} (closed form)" if is_computed else method,
        )  # fmt: skip
        least, most = [min(result.runs) for result in own], [max(result.runs) for result in own]
        axes.fill_between(sigmas, least, most, color=line.get_color(), alpha=0.12, linewidth=0)
