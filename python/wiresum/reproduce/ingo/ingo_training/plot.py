"""Pictures like InGo's Figs. 4, 5, 8 and 9, of `wiresum.reproduce.ingo.ingo_training.measure`."""

from __future__ import annotations

from pathlib import Path

from wiresum.bench.result import Report
from wiresum.picture import picture
from wiresum.reproduce.ingo.ingo_training.measure import TARGET, of

SIZE_INCHES = (6.6, 4.0)
HIGHEST = {"accuracies": 1.0, "losses": 3.2}
"""Upper ends of the axes: room for the legend above the curves of the loss, which begin at ln 10."""
DASHED = ("ATP",)
"""It may have GRID's rate."""
LABELS = {"accuracies": "test accuracy (digits)", "losses": "training loss (mean of about 5 steps)"}


def draw(report: Report, path: Path, network: str, quantity: str) -> None:
    """Draws a quantity of each scheme over its time.

    Args:
        report: of the trainings.
        path: of the picture.
        network: `testbed` or `fat-tree`.
        quantity: of `LABELS`.

    Raises:
        SupportError: matplotlib is not installed.
    """
    found = of(report, network)
    shortest_s = min(len(one.extra[quantity]) * one.extra["step_s"] for one in found.values())
    with picture(path, figsize=SIZE_INCHES) as (_, axes):
        for scheme, result in found.items():
            values, step_s = result.extra[quantity], result.extra["step_s"]
            label = f"{scheme}: batches of {result.extra['batch_size']}, {step_s:.2f} s a step"
            times = [step_s * number for number in range(1, len(values) + 1)]
            style = "--" if scheme in DASHED else "-"
            axes.plot(times, values, style, label=label, linewidth=1.3)
        if quantity == "accuracies":
            axes.axhline(TARGET, color="grey", linewidth=0.8, linestyle=":")
        axes.set(xlabel="time (s)", ylabel=LABELS[quantity], xlim=(0, shortest_s), ylim=(0, HIGHEST[quantity]))
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(frameon=False, fontsize=8, loc="lower right" if quantity == "accuracies" else "upper right")
