"""The product's planners on this paper's networks, and pictures like its own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

from wiresum.bench.live import measure as live
from wiresum.bench.live.command import Options as Live
from wiresum.bench.result import Report
from wiresum.bench.routing import check as routing_check
from wiresum.bench.routing import measure as routing
from wiresum.bench.routing.command import Options as Routing
from wiresum.reproduce.ingo.ingo_training import measure as ingo_training
from wiresum.reproduce.ingo.ingo_training import plot as ingo_training_plot
from wiresum.reproduce.row import Benchmark, Figure


def _routing(quick: bool, progress: Callable[[str], None], time_limit_s: float) -> Report:
    full = Routing(workers=(10, 20, 30, 40, 50), seeds=5, time_limit_s=time_limit_s)
    return routing.measure(replace(full, workers=(10, 50), seeds=1) if quick else full, progress)


def _live(quick: bool, progress: Callable[[str], None]) -> Report:
    size = QUICK_LIVE_BYTES if quick else LIVE_BYTES
    return live.measure(Live(size_bytes=size, repeats=3, cases=LIVE_CASES), progress)


def _check(quick: bool, progress: Callable[[str], None], time_limit_s: float) -> Report:
    full = routing_check.Options(time_limit_s=CHECKED_TIMES * time_limit_s)
    return routing_check.measure(replace(full, workers=None) if quick else full, progress)


def _training(quick: bool, progress: Callable[[str], None], time_limit_s: float) -> Report:
    full = ingo_training.Options(time_limit_s=time_limit_s)
    return ingo_training.measure(replace(full, networks=1, seeds=1) if quick else full, progress)


def _draw_training(network: str, quantity: str, report: Report, path: Path) -> None:
    ingo_training_plot.draw(report, path, network, quantity)


def _draw(quantity: str, starts: str, report: Report, path: Path) -> None:
    routing.draw(report, quantity, starts, path)


CHECKED_TIMES = 3
"""Time of a plan that is simulated, over that of one that is only predicted: all cores simulate at once."""
LIVE_CASES = ("InGo's star", "InGo's ring", "InGo's mesh")
LIVE_BYTES, QUICK_LIVE_BYTES = 4_000_000, 1_000_000
NETWORKS = "the testbed in three shapes; a fat-tree of 8-port switches with links of 3 to 10 Gbit/s"
TRAINED = (
    "the testbed as a mesh and that fat-tree with 50 workers; a real training on digits, its steps as long as the "
    "planned rates and the paper's computing make them"
)
BENCHMARKS = {
    "routing": Benchmark(
        "wiresum bench routing --workers 10,20,30,40,50 --seeds 5", 400, 40, _routing, NETWORKS, searches=True
    ),
    "live": Benchmark("wiresum bench live", 40, 30, _live, "the testbed in three shapes, 100 Mbit/s"),
    "check": Benchmark("wiresum reproduce ingo --rows I12", 30, 10, _check, NETWORKS, searches=True),
    "training": Benchmark("wiresum reproduce ingo --rows I3,I6", 50, 30, _training, TRAINED, searches=True),
}
RATES = tuple(
    Figure(name, file, "routing", partial(_draw, quantity, starts))
    for name, file, quantity, starts in (
        ("Fig. 2", "testbed-rate.png", "mean_gbps", "testbed"),
        ("Fig. 3", "testbed-sums.png", "elements_per_second", "testbed"),
        ("Fig. 6", "fat-tree-rate.png", "mean_gbps", "fat-tree"),
        ("Fig. 7", "fat-tree-sums.png", "elements_per_second", "fat-tree"),
    )
)
TRAININGS = tuple(
    Figure(name, f"{network}-{file}.png", "training", partial(_draw_training, network, quantity))
    for name, network, file, quantity in (
        ("Fig. 4", ingo_training.TESTBED, "accuracy", "accuracies"),
        ("Fig. 5", ingo_training.TESTBED, "loss", "losses"),
        ("Fig. 8", ingo_training.FAT_TREE, "accuracy", "accuracies"),
        ("Fig. 9", ingo_training.FAT_TREE, "loss", "losses"),
    )
)
FIGURES = (*RATES, *TRAININGS)
