"""InGo: aggregators, paths and batch size (IEEE/ACM IWQoS, 2024)."""

from wiresum.reproduce import TITLES
from wiresum.reproduce.ingo import rates, theorems, training
from wiresum.reproduce.ingo.benchmarks import BENCHMARKS, FIGURES
from wiresum.reproduce.row import Paper

ROWS = (*rates.ROWS, *theorems.ROWS, *training.ROWS)

PAPER = Paper(
    title=TITLES["ingo"],
    conditions="planned: flows on chosen paths, the way up only",
    rows=sorted(ROWS, key=lambda row: int(row.id.removeprefix("I"))),
    benchmarks=BENCHMARKS,
    figures=FIGURES,
)
