"""XAgg: aggregation by XDP programs on servers (IEEE/ACM Transactions on Networking, 2023)."""

from wiresum.reproduce import TITLES
from wiresum.reproduce.row import Paper
from wiresum.reproduce.xagg import management, microbenchmark, motivation, training
from wiresum.reproduce.xagg.benchmarks import BENCHMARKS
from wiresum.reproduce.xagg.figures import FIGURES

ROWS = (*motivation.ROWS, *microbenchmark.ROWS, *training.ROWS, *management.ROWS)

PAPER = Paper(
    title=TITLES["xagg"],
    conditions="emulation: network namespaces on one machine",
    rows=sorted(ROWS, key=lambda row: int(row.id.removeprefix("X"))),
    benchmarks=BENCHMARKS,
    figures=FIGURES,
)
