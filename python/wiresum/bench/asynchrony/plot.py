"""Methods under growing asynchrony, as curves: a panel for each quantity."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from wiresum.bench.asynchrony.measure import AFTER, CLOSED_FORMS, LINKS, ROUNDS, SERVER, SUMMED
from wiresum.bench.result import Report, Result
from wiresum.picture import picture

PANELS = {
    SERVER: "into the parameter server\n(models a round)",
    LINKS: "over all links\n(models a round)",
    SUMMED: "not received by the server\n(% of gradients)",
    AFTER: "after the last gradient\n(ms)",
    ROUNDS: "rounds a second",
}
MARKERS = "osD^vPX*<>"
DODGE = 0.008
"""Between one curve and the next, of the axis: some methods lie on each other."""
DEVIATION = ("deviation", "standard deviation of computing times (of their mean)")


def draw(report: Report, path: Path) -> None:
    """Draws medians as curves, with the range over seeds behind them.

    Args:
        report: of `wiresum bench asynchrony`.
        path: of the picture; the ending chooses the format, as .png or .svg.

    Raises:
        SupportError: matplotlib is not installed, or the file cannot be written.
    """
    with picture(path, 2, 3, figsize=(11.5, 6.4)) as (_, grid):
        *panels, legend = grid.ravel()
        for axes, quantity in zip(panels, PANELS, strict=True):
            _panel(axes, report, quantity, DEVIATION)
        legend.axis("off")
        handles, labels = panels[-1].get_legend_handles_labels()
        legend.legend(handles, labels, loc="center", frameon=False, fontsize=9)


def draw_one(report: Report, path: Path, quantity: str, across: tuple[str, str]) -> None:
    """Draws one quantity, over what results have in `extra`; errors as for `draw`.

    Args:
        report: whose results have that.
        path: of the picture.
        quantity: of `PANELS`.
        across: the key in `extra`, and words for the axis.
    """
    with picture(path, figsize=(7.2, 4.2)) as (figure, axes):
        _panel(axes, report, quantity, across)
        figure.legend(loc="outside right center", frameon=False, fontsize=8)


def _panel(axes: Any, report: Report, quantity: str, across: tuple[str, str]) -> None:
    key, label = across
    _curves(axes, [result for result in report.results if result.extra["quantity"] == quantity], key)
    axes.set_ylabel(PANELS[quantity], fontsize=9)
    axes.set_xlabel(label, fontsize=8)
    axes.set_ylim(bottom=0)
    axes.tick_params(labelsize=8)
    axes.spines[["top", "right"]].set_visible(False)


def _curves(axes: Any, results: Sequence[Result], key: str) -> None:
    methods = list(dict.fromkeys(result.extra["method"] for result in results))
    across = [result.extra[key] for result in results]
    span = max(across) - min(across)
    for index, method in enumerate(methods):
        own = [result for result in results if result.extra["method"] == method]
        dodge = DODGE * (index - len(methods) / 2) * span
        places = [result.extra[key] + dodge for result in own]
        is_computed = method in CLOSED_FORMS
        (line,) = axes.plot(
            places, [result.median for result in own], marker=MARKERS[index % len(MARKERS)], markersize=4,
            linewidth=1.2, linestyle="--" if is_computed else "-",
            label=f"{method} (closed form)" if is_computed else method,
        )  # fmt: skip
        least, most = [min(result.runs) for result in own], [max(result.runs) for result in own]
        axes.fill_between(places, least, most, color=line.get_color(), alpha=0.12, linewidth=0)
