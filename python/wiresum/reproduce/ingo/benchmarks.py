"""The product's planners on this paper's networks, and pictures like its own."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from wiresum.bench import routing
from wiresum.bench.result import Report
from wiresum.reproduce.row import Benchmark, Figure


def _routing(quick: bool, progress: Callable[[str], None]) -> Report:
    full = routing.Options(workers=(10, 20, 30, 40, 50), seeds=5)
    return routing.measure(routing.Options(workers=(10, 50), seeds=1) if quick else full, progress)


def _draw(quantity: str, starts: str, report: Report, path: Path) -> None:
    routing.draw(report, quantity, starts, path)


NETWORKS = "the testbed in three shapes; a fat-tree of 8-port switches with links of 3 to 10 Gbit/s"
BENCHMARKS = {
    "routing": Benchmark("wiresum bench routing --workers 10,20,30,40,50 --seeds 5", 400, 40, _routing, NETWORKS)
}
FIGURES = tuple(
    Figure(name, file, "routing", partial(_draw, quantity, starts))
    for name, file, quantity, starts in (
        ("Fig. 2", "testbed-rate.png", "mean_gbps", "testbed"),
        ("Fig. 3", "testbed-sums.png", "elements_per_second", "testbed"),
        ("Fig. 6", "fat-tree-rate.png", "mean_gbps", "fat-tree"),
        ("Fig. 7", "fat-tree-sums.png", "elements_per_second", "fat-tree"),
    )
)
