"""Pictures like the paper's, from our runs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from wiresum.bench.aggregator import plot as aggregator_plots
from wiresum.bench.compare import measure as compare
from wiresum.bench.heterogeneity import plot as heterogeneity_plot
from wiresum.bench.rates import plot as rates_plot
from wiresum.bench.result import Report
from wiresum.reproduce.row import Figure


def _of_aggregator(picture: str) -> Callable[[Report, Path], None]:
    return lambda report, path: aggregator_plots.draw_one(report, picture, path)


FIGURES = (
    Figure("Fig. 1", "fig-01-heterogeneity.png", "heterogeneity", heterogeneity_plot.draw),
    Figure("Fig. 6", "fig-06-packet-rate.png", "aggregator", _of_aggregator("rate-by-values")),
    Figure("Fig. 7", "fig-07-throughput.png", "aggregator", _of_aggregator("throughput-by-values")),
    Figure("Fig. 9", "fig-09-cpu.png", "aggregator", _of_aggregator("cpu-by-load")),
    Figure("Fig. 10", "fig-10-latency.png", "aggregator", _of_aggregator("latency-by-load")),
    Figure("Fig. 11", "fig-11-loss.png", "aggregator", _of_aggregator("loss-by-load")),
    Figure("Fig. 13", "fig-13-communication.png", "compare", compare.draw),
    Figure("Fig. 21", "fig-21-bandwidth-decrease.png", "rates", rates_plot.draw),
)
