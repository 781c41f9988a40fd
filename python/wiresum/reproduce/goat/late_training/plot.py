"""Pictures like GOAT's Figs. 11 and 12, of `wiresum.reproduce.goat.late_training.measure`."""

from __future__ import annotations

from pathlib import Path

from wiresum.bench.result import Report
from wiresum.picture import picture
from wiresum.reproduce.goat.late_training.measure import NAMES, of

SIZE_INCHES = (5.6, 3.8)
MARKERS = "os^"


def draw_speed(report: Report, path: Path) -> None:
    """Images/s in the sums by the number of workers, with the range over seeds (Fig. 11).

    Raises:
        SupportError: matplotlib is not installed.
    """
    counts = sorted({one.extra["workers"] for one in report.results})
    with picture(path, figsize=SIZE_INCHES) as (_, axes):
        for index, (method, name) in enumerate(NAMES.items()):
            own = [of(report, workers)[method] for workers in counts]
            medians = [one.median for one in own]
            spread = [[one.median - min(one.runs) for one in own], [max(one.runs) - one.median for one in own]]
            axes.errorbar(counts, medians, yerr=spread, marker=MARKERS[index], markersize=4, capsize=3, label=name)
        axes.set(xlabel="workers", xticks=counts, ylabel="images/s in the sums", ylim=(0, None))
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(frameon=False, fontsize=8)


def draw_accuracy(report: Report, path: Path) -> None:
    """Accuracy over virtual time with the most workers, every seed (Fig. 12); errors as for `draw_speed`."""
    found = of(report, max(one.extra["workers"] for one in report.results))
    with picture(path, figsize=SIZE_INCHES) as (_, axes):
        for index, (method, result) in enumerate(found.items()):
            for number, curve in enumerate(result.extra["curves"]):
                label = NAMES[method] if number == 0 else None
                width, alpha = (1.4, 1.0) if number == 0 else (0.8, 0.4)
                places = [seconds for seconds, _ in curve], [accuracy for _, accuracy in curve]
                axes.plot(*places, color=f"C{index}", label=label, linewidth=width, alpha=alpha)
        axes.set(xlabel="virtual time (s)", ylabel="test accuracy (digits)", xlim=(0, None), ylim=(0, 1))
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(frameon=False, fontsize=8, loc="lower right")
