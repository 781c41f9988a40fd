"""Pictures like GOAT's Figs. 5 to 10, of `wiresum.reproduce.goat.goat_testbed.measure`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from wiresum.bench import bars
from wiresum.bench.result import Report
from wiresum.picture import picture
from wiresum.reproduce.goat.goat_testbed.measure import (
    ACCURACY,
    COMMUNICATION,
    GIGA_MULTIPLY_ADDS,
    NAMES,
    ROUND,
    SERVER,
    SPEED,
    learned,
    median,
)

LABELS = {
    ROUND: "time of a round (s)",
    COMMUNICATION: "communication (s)",
    SERVER: "into the parameter server (MB a round)",
    SPEED: "images/s",
}
MARKERS = "os^vD"
SIZE_INCHES = (9.0, 3.6)
DODGE = 0.12
"""Workers between one curve and the next: some methods lie on each other."""
STYLES = {"goat": "-", "esa": "--", "atp": ":", "atp_static": "-", "ps": "-"}
"""ESA's and ATP's curves lie on each other."""


def draw_by_model(report: Report, path: Path) -> None:
    """Images/s of each model with few workers (Fig. 5).

    Raises:
        SupportError: matplotlib is not installed.
    """
    found = [one.extra for one in report.results if one.extra["quantity"] == SPEED]
    few = max({one["workers"] for one in found}, key=lambda workers: len(_models(found, workers)))
    models = sorted(_models(found, few), key=list(GIGA_MULTIPLY_ADDS).index)
    values = {name: [median(report, model, few, method, SPEED) for model in models] for method, name in NAMES.items()}
    bars.draw(path, models, values, {}, f"images/s, {few} workers")


def _models(found: Sequence[dict[str, Any]], workers: int) -> list[str]:
    return list(dict.fromkeys(one["model"] for one in found if one["workers"] == workers))


def draw_by_workers(report: Report, path: Path, quantity: str) -> None:
    """A quantity by the number of workers, a panel for each model that has several; errors as `draw_by_model`."""
    found = [one.extra for one in report.results if one.extra["quantity"] == quantity]
    counts = {model: _counts(found, model) for model in dict.fromkeys(one["model"] for one in found)}
    models = [model for model, several in counts.items() if len(several) > 1]
    with picture(path, columns=len(models), squeeze=False, figsize=SIZE_INCHES) as (_, grid):
        for axes, model in zip(grid[0], models, strict=True):
            for index, (method, name) in enumerate(NAMES.items()):
                values = [median(report, model, workers, method, quantity) for workers in counts[model]]
                places = [workers + DODGE * (index - len(NAMES) / 2) for workers in counts[model]]
                axes.plot(places, values, marker=MARKERS[index], markersize=4, linewidth=1.2, label=name)
            axes.set(title=model, xlabel="workers", xticks=counts[model], ylabel=LABELS[quantity])
            axes.set_ylim(bottom=0)
            axes.spines[["top", "right"]].set_visible(False)
        grid[0][0].legend(frameon=False, fontsize=8)


def _counts(found: Sequence[dict[str, Any]], model: str) -> list[int]:
    return sorted({one["workers"] for one in found if one["model"] == model})


def draw_accuracy(report: Report, path: Path) -> None:
    """Accuracy of one real training over each method's simulated time (Fig. 7); errors as `draw_by_model`."""
    accuracies = learned(report).accuracies
    workers = next(one.extra["workers"] for one in report.results if one.extra["quantity"] == ACCURACY)
    found = [one.extra for one in report.results if one.extra["quantity"] == ROUND]
    models = [model for model in _models(found, workers) if len(_counts(found, model)) > 1]
    numbers = range(1, len(accuracies) + 1)
    with picture(path, columns=len(models), squeeze=False, figsize=SIZE_INCHES) as (_, grid):
        for axes, model in zip(grid[0], models, strict=True):
            for method, name in NAMES.items():
                round_s = median(report, model, workers, method, ROUND)
                axes.plot(
                    [round_s * number for number in numbers], accuracies, STYLES[method], linewidth=1.3, label=name
                )
            shortest_s = median(report, model, workers, "goat", ROUND) * len(accuracies)
            title = f"rounds as long as {model}'s"
            axes.set(title=title, xlabel="time (s)", ylabel="test accuracy (digits)", xlim=(0, shortest_s))
            axes.spines[["top", "right"]].set_visible(False)
        grid[0][-1].legend(frameon=False, fontsize=8, loc="lower right")
