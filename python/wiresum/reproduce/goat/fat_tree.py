"""§VII-D, Fig. 14: what switches of the fat-tree take away from the server, by the plans of each method.

It counts what plans say, as the paper's figure does: whoever simulates them with trains has switches name workers in
cohorts of 64, each of which is summed by itself.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from wiresum.bench.result import Report, Result
from wiresum.picture import picture
from wiresum.reproduce.goat import placement, printed
from wiresum.reproduce.goat.networks import LAYER_MB, LAYERS, PLACEMENTS
from wiresum.reproduce.row import Benchmark, Figure, Reports, Row
from wiresum.reproduce.words import listed, times

WORKERS = (40, 50, 60, 70)
METHODS = {"goat": "GOAT", "esa": "ESA", "atp": "ATP", "atp_static": "its model of ATP"}
"""Planners, as the paper calls them. Geryon sums nothing."""
SIZE_INCHES = (5.6, 3.8)
MARKERS = "os^v"
DODGE = 0.3
"""Workers between one curve and the next: ATP's and ESA's plans are the same."""


def gradients_gb(workers: int) -> float:
    """Gradients of all workers."""
    return workers * LAYERS * LAYER_MB / 1e3


def _measure(quick: bool, progress: Callable[[str], None]) -> Report:
    results = []
    for workers in (WORKERS[0], WORKERS[-1]) if quick else WORKERS:
        for planner, name in METHODS.items():
            progress(f"{workers} workers, {name}")
            means = placement.simulated("fat-tree", workers, planner)
            extra = {"planner": planner, "workers": workers}
            results.append(Result(f"{name}, {workers} workers", "GB", [means.in_network / 1e3], extra))
    return Report("fat-tree", {"placements": PLACEMENTS}, results)


def _of(report: Report, planner: str) -> dict[int, float]:
    return {one.extra["workers"]: one.median for one in report.results if one.extra["planner"] == planner}


def planned(reports: Reports) -> str:
    """With the fewest and the most workers."""
    report, said = reports.report("fat-tree"), []
    for workers in (WORKERS[0], WORKERS[-1]):
        found = {name: f"{_of(report, planner)[workers]:.2f}" for planner, name in METHODS.items()}
        said.append(f"{workers} workers: {listed(found)} of {gradients_gb(workers):.2f} GB")
    return f"planned, mean of {PLACEMENTS} placements, nobody late: {'; '.join(said)}"


def _arithmetic() -> str:
    goat_gb, esa, atp = printed.IN_NETWORK_GB.values()
    most = gradients_gb(WORKERS[0]) - gradients_gb(1)
    return f"{times(goat_gb / esa)} ESA, {times(goat_gb / atp)} ATP; by the metric's definition at most {most:.2f} GB"


def draw(report: Report, path: Path) -> None:
    """Draws each method over the number of workers, below what all gradients are.

    Raises:
        SupportError: matplotlib is not installed.
    """
    with picture(path, figsize=SIZE_INCHES) as (_, axes):
        counts = list(_of(report, next(iter(METHODS))))
        for index, (planner, name) in enumerate(METHODS.items()):
            places = [workers + DODGE * (index - len(METHODS) / 2) for workers in counts]
            axes.plot(places, list(_of(report, planner).values()), marker=MARKERS[index], markersize=4, label=name)
        axes.plot(counts, [gradients_gb(workers) for workers in counts], ":", color="grey", label="all gradients")
        axes.set(xlabel="workers", xticks=counts, ylabel="summed in the network (GB a round)", ylim=(0, None))
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(frameon=False, fontsize=8)


NETWORK = "fat-tree of 80 switches, 10 of which sum, planned"
BENCHMARKS = {"fat-tree": Benchmark("wiresum reproduce goat --rows G6b", 15, 10, _measure, NETWORK)}
FIGURES = (Figure("Fig. 14", "fig-14-in-network.png", "fat-tree", draw),)
ROWS = (
    Row(
        "G6b", "in-network aggregation: fat-tree, 40 workers", "A", "§VII-C, Fig. 14",
        "GOAT 9.6, ESA 3.2, ATP 1.9 GB; “up to 4×”", recomputed=_arithmetic, measured=planned, needs=("fat-tree",),
    ),
)  # fmt: skip
