"""§V-E: what lost packets cost (Fig. 11), packet by packet in virtual time with the machines that run live."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from pathlib import Path

from wiresum.bench.result import Report, Result
from wiresum.picture import picture
from wiresum.reproduce.row import Benchmark, Figure, Reports, Row
from wiresum.reproduce.words import listed, percent
from wiresum.reproduce.zebra import live, printed, simulated

LOSSES = (0.0, 0.0001, 0.001, 0.01)
WORKERS = 8
TRACE = "criteo:scale=0.02,batch=256"
ROUNDS, QUICK_ROUNDS = 40, 6
"""A round has some thousand packets, so of 0.01 % a few in all are lost."""
PLANNERS = {"zebra": "Zebra's flow", "tiers": "tiers"}


def _measure(quick: bool, progress: Callable[[str], None]) -> Report:
    results = []
    for planner, name in PLANNERS.items():
        rows = {"trace": TRACE, "planner": planner, "rounds": QUICK_ROUNDS if quick else ROUNDS}
        for loss in LOSSES:
            progress(f"{name}, {percent(loss, 2)} lost on each link")
            outcome = simulated.play(rows, WORKERS, loss)
            seconds = outcome.seconds_of(outcome.jobs[0])
            results.append(Result(f"{planner}, {loss}", "s", seconds, {"planner": planner, "loss": loss}))
    return Report("loss", {"workers": WORKERS, "trace": TRACE, "rate_bps": simulated.RATE_BPS}, results)


def longer(report: Report, planner: str) -> dict[float, float]:
    """By loss, how much longer all rounds take than without."""
    total = {one.extra["loss"]: sum(one.runs) for one in report.results if one.extra["planner"] == planner}
    return {loss: seconds / total[0.0] - 1 for loss, seconds in total.items() if loss}


def _lost(reports: Reports) -> str:
    report, said = reports.report("loss"), []
    for planner, name in PLANNERS.items():
        each = listed({
            f"{percent(loss, 2)}": f"+{percent(more)}" for loss, more in longer(report, planner).items()
        })  # fmt: skip
        said.append(f"{name}: {each}")
    rounds = len(report.results[0].runs)
    mean = statistics.fmean(report.results[0].runs)
    return (
        f"rounds in packets, loss on each of two hops: {'; '.join(said)} ({WORKERS} workers, {rounds} rounds of "
        f"{1e3 * mean:.0f} ms); computing, which hides losses in the paper, is left out; {live.lost(reports)}"
    )


def draw(report: Report, path: Path) -> None:
    """Draws how much longer rounds take, over the loss.

    Raises:
        SupportError: matplotlib is not installed.
    """
    with picture(path, 1, 1, figsize=(4.8, 3.2)) as (_, axes):
        for marker, (planner, name) in zip("os", PLANNERS.items(), strict=True):
            found = longer(report, planner)
            axes.plot(
                [100 * loss for loss in found], [100 * more for more in found.values()], marker=marker, label=name
            )
        axes.axhspan(0, 100 * printed.LOSS_COST, color="grey", alpha=0.12, label="printed, to 0.1 %")
        axes.set(xscale="log", xlabel="lost packets (%)", ylabel="longer rounds (%)")
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(frameon=False, fontsize=8)


NETWORK = f"Criteo-like clicks, {WORKERS} workers and a server, packets in virtual time"
BENCHMARKS = {"loss": Benchmark("wiresum reproduce zebra --rows Z9", 240, 60, _measure, NETWORK)}
FIGURES = (Figure("Fig. 11", "fig-11-loss.png", "loss", draw),)
ROWS = (
    Row(
        "Z9", "longer training by loss of 0.01 to 0.1 % of the packets", "PL", "§V-E, Fig. 11", "below 3 %",
        measured=_lost, needs=("loss", "live loss"),
    ),
)  # fmt: skip
