"""What the demo measured, as a table, a picture and a JSON object."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.table import Table

from wiresum.picture import GREY, OURS, RIVAL, picture

COLOURS = {"wiresum": OURS, "gloo": RIVAL}


@dataclass(frozen=True)
class Training:
    """One training run over one backend."""

    backend: str
    data: str
    workers: int
    parameters: int
    steps: int
    step_seconds: list[float]
    losses: list[float]
    images_per_second: float
    accuracy: float
    all_reduce_seconds: float
    busiest_link_bytes: int | None
    """Most bytes that one link carried in one direction during the whole run; None where links are not counted."""
    report: str = ""

    def share_of_limit(self, limit_seconds: float | None) -> float | None:
        """Which part of the wire limit the all-reduce reaches, 1 being the limit itself."""
        return limit_seconds / self.all_reduce_seconds if limit_seconds else None


@dataclass(frozen=True)
class DemoOutcome:
    """The runs side by side."""

    trainings: Sequence[Training]
    rate_bps: float | None
    limit_seconds: float | None
    """Time that an all-reduce of the gradient needs at the least, summed in the network; None on unshaped links."""
    how: str
    """How the figures were obtained, for people."""

    def to_json(self) -> dict[str, Any]:
        """Everything, with the derived figures."""
        trainings = [asdict(t) | {"share_of_wire_limit": t.share_of_limit(self.limit_seconds)} for t in self.trainings]
        return asdict(self) | {"trainings": trainings}

    def table(self) -> Table:
        """One row per quantity, one column per backend."""
        table = Table(
            title=f"{self.trainings[0].data}: {self.trainings[0].parameters / 1e6:.1f} M parameters, {self.how}"
        )
        table.add_column("")
        for training in self.trainings:
            table.add_column(training.backend, justify="right")
        for name, cells in self.rows():
            table.add_row(name, *cells)
        return table

    def rows(self) -> list[tuple[str, list[str]]]:
        """The table's rows as text."""
        return [
            ("images/s", [f"{t.images_per_second:,.0f}" for t in self.trainings]),
            ("all-reduce of the gradient", [f"{1e3 * t.all_reduce_seconds:,.0f} ms" for t in self.trainings]),
            ("share of the wire limit", [percent(t.share_of_limit(self.limit_seconds)) for t in self.trainings]),
            ("final accuracy", [f"{100 * t.accuracy:.1f} %" for t in self.trainings]),
            ("bytes on the busiest link", [megabytes(t.busiest_link_bytes) for t in self.trainings]),
        ]

    def draw(self, path: Path) -> None:
        """Loss over time and the time of an all-reduce, as a picture."""
        with picture(path, 1, 2, figsize=(10, 4), width_ratios=[2, 1]) as (figure, (left, right)):
            for training in self.trainings:
                seconds = list(itertools.accumulate(training.step_seconds, initial=0.0))
                left.plot(seconds, smooth(training.losses), label=training.backend, color=colour(training), linewidth=2)
            left.set(
                xlabel="training time (s)",
                ylabel="loss (mean of 5 steps)",
                yscale="log",
                title="The same training, step for step",
            )
            left.legend(frameon=False)
            names = [t.backend for t in self.trainings]
            values = [1e3 * t.all_reduce_seconds for t in self.trainings]
            bars = right.bar(names, values, color=[colour(t) for t in self.trainings], width=0.6)
            right.bar_label(bars, fmt="%.0f ms")
            right.set(ylabel="all-reduce of the gradient (ms)", title="Time on the wire")
            if self.limit_seconds:
                right.axhline(1e3 * self.limit_seconds, color="black", linestyle="--", linewidth=1)
                box = {"facecolor": "white", "edgecolor": "none", "pad": 2}
                place = (0.5, 1e3 * self.limit_seconds)
                right.text(*place, "wire limit", ha="center", va="center", bbox=box, fontsize=9)
            for axes in (left, right):
                axes.spines[["top", "right"]].set_visible(False)
            figure.suptitle(f"{self.trainings[0].workers} workers, {self.how}", fontsize=10)


def colour(training: Training) -> str:
    """A backend's colour, the same in every picture."""
    return COLOURS.get(training.backend, GREY)


def smooth(losses: list[float], width: int = 5) -> list[float]:
    """Mean over the last `width` steps: single steps are noisy."""
    return [sum(losses[max(0, i - width + 1) : i + 1]) / min(width, i + 1) for i in range(len(losses))]


def percent(share: float | None) -> str:
    """A share for people."""
    return "–" if share is None else f"{100 * share:.0f} %"


def megabytes(count: int | None) -> str:
    """A byte count for people."""
    return "–" if count is None else f"{count / 1e6:,.0f} MB"
