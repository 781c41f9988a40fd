"""The sparse job, end to end: a DLRM whose hot rows are summed on the way, beside the same training by other means."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean, median
from typing import Any

import numpy as np
from rich.table import Table

from wiresum.bench.sparse_training.command import Options
from wiresum.bench.sparse_training.measure import Training, hot_rows, train
from wiresum.bench.sparse_training.models import CASES
from wiresum.picture import BLUE, GREY, OURS, PALE, RIVAL, SKY, picture
from wiresum.plan.choices import Engine
from wiresum.sparse.trace import Trace

MODEL = "dlrm"
STEPS, SCALE, BATCH, SERVERS = 30, 0.01, 256, 1
"""A training of seconds: 340,000 rows, and 64 times as many lookups as a worker has samples."""
COUNTED_ROUNDS = 4
COLOURS = {"wiresum": OURS, "push_pull": RIVAL, "gloo": GREY}
NAMES = {"wiresum": "Wiresum", "push_pull": "servers without sums", "gloo": "Gloo's DDP"}
TIERS = {"A": BLUE, "B": SKY, "C": PALE}
MEANINGS = {
    "A": "A: every worker keeps the row, its sum is broadcast",
    "B": "B: summed on its way to the server",
    "C": "C: straight to the server",
}
SMOOTHED_STEPS = 5


@dataclass(frozen=True, eq=False)
class SparseDemoOutcome:
    """Trainings side by side, and which rows are popular.

    Attributes:
        trainings: one of each method.
        pushed: share of all pushes that the most popular rows get, by their number.
        tiers: rows of the tiers A and B.
        how: how the figures were obtained, for people.
    """

    trainings: Sequence[Training]
    pushed: Sequence[float]
    tiers: dict[str, int]
    how: str

    def to_json(self) -> dict[str, Any]:
        """Everything but the curve."""
        return {"trainings": [asdict(one) for one in self.trainings], "tiers": self.tiers, "how": self.how}

    def table(self) -> Table:
        """One row per quantity, one column per method."""
        table = Table(title=f"DLRM, {len(self.pushed):,} rows touched, {self.how}")
        table.add_column("")
        for one in self.trainings:
            table.add_column(NAMES[one.method], justify="right")
        first = self.trainings[0]
        rows = {
            "samples/s": [f"{median(one.rates):,.0f}" for one in self.trainings],
            "time of a step": [f"{1e3 * one.samples / median(one.rates):,.0f} ms" for one in self.trainings],
            f"{NAMES[first.method]} is": [f"{median(first.rates) / median(one.rates):.2f} ×" for one in self.trainings],
            "loss at the end": [f"{fmean(one.losses[-SMOOTHED_STEPS:]):.4f}" for one in self.trainings],
        }
        for name, cells in rows.items():
            table.add_row(name, *cells)
        return table

    def draw(self, path: Path) -> None:
        """The popularity curve with its tiers, and loss over time."""
        with picture(path, 1, 2, figsize=(10, 4)) as (figure, (left, right)):
            self._draw_popularity(left)
            for one in self.trainings:
                seconds = list(itertools.accumulate(one.seconds))
                losses = [fmean(one.losses[max(0, i - SMOOTHED_STEPS) : i + 1]) for i in range(len(one.losses))]
                right.plot(seconds, losses, label=NAMES[one.method], color=COLOURS[one.method], linewidth=2)
            right.set(xlabel="training time (s)", ylabel="loss", title="The same training, step for step")
            right.legend(frameon=False)
            for axes in (left, right):
                axes.spines[["top", "right"]].set_visible(False)
            figure.suptitle(self.how, fontsize=10)

    def _draw_popularity(self, axes: Any) -> None:
        ends = np.cumsum([self.tiers.get("A", 0), self.tiers.get("B", 0)])
        edges = [1, *np.clip(ends, 1, len(self.pushed)), len(self.pushed)]
        for tier, (begin, end) in zip(TIERS, itertools.pairwise(edges), strict=True):
            if begin < end:
                axes.axvspan(begin, end, color=TIERS[tier], alpha=0.5, label=MEANINGS[tier], linewidth=0)
        ranks = np.arange(1, len(self.pushed) + 1)
        axes.plot(ranks, 100 * np.asarray(self.pushed), color="black", linewidth=1.5)
        axes.set(xscale="log", ylim=(0, 100), xlim=(1, len(self.pushed)))
        axes.set(xlabel="most popular rows", ylabel="share of what workers push (%)", title="Where rows are summed")
        axes.legend(frameon=False, fontsize=7, loc="upper left")


def compare(
    workers: int,
    rate_bps: float,
    engine: Engine,
    steps: int = STEPS,
    *,
    loopback: bool | None,
    progress: Callable[[str], None],
) -> SparseDemoOutcome:
    """Trains by every method on the same links.

    Args:
        workers: hosts around one switch that sums.
        rate_bps: of each link, each way.
        engine: what sums dense gradients.
        steps: of each training.
        loopback: never use namespaces (True), or whatever this process may (None).
        progress: is told what is trained.

    Raises:
        TestbedError: the links cannot be made, or a worker or server failed.
    """
    options = Options(
        models=(MODEL,), workers=workers, servers=SERVERS, rate_bps=rate_bps, steps=steps, scale=SCALE, batch=BATCH,
        engine=engine, loopback=loopback,
    )  # fmt: skip
    trace = CASES[MODEL].trace(SCALE, BATCH)
    hot = json.loads(hot_rows(trace, options) or '{"rows": []}')["rows"]
    trainings, notes = train(MODEL, options, progress)
    rate = f"{workers} workers, {rate_bps / 1e6:g} Mbit/s links in network namespaces"
    how = f"{workers} workers on loopback, unshaped" if notes else rate
    return SparseDemoOutcome(trainings, _shares(trace, workers), dict(Counter(tier for *_, tier in hot)), how)


def _shares(trace: Trace, workers: int) -> list[float]:
    """Share of pushes of the most pushed rows, by how many they are."""
    rounds = itertools.product(range(COUNTED_ROUNDS), range(workers))
    pushed = np.concatenate([trace.pushed(number, worker, workers) for number, worker in rounds])
    counts = np.sort(np.unique(pushed, return_counts=True)[1])[::-1]
    return list(np.cumsum(counts) / counts.sum())
