"""Zebra: sums of the hot parameters of sparse models, on a switch."""

from wiresum.reproduce import TITLES
from wiresum.reproduce.row import Paper
from wiresum.reproduce.zebra import (
    aggregation,
    identification,
    layout,
    live,
    loss,
    popularity,
    simulated,
    station,
    switch,
)

PAPER = Paper(
    title=TITLES["zebra"],
    conditions="on drawn traces, as neither the paper's data nor its batches are published",
    rows=sorted(
        (
            *popularity.ROWS,
            *aggregation.ROWS,
            *identification.ROWS,
            *layout.ROWS,
            *loss.ROWS,
            *station.ROWS,
            *switch.ROWS,
        ),
        key=lambda row: int(row.id[1:]),
    ),
    benchmarks={
        **popularity.BENCHMARKS,
        **aggregation.BENCHMARKS,
        **identification.BENCHMARKS,
        **layout.BENCHMARKS,
        **loss.BENCHMARKS,
        **simulated.BENCHMARKS,
        **live.BENCHMARKS,
        **station.BENCHMARKS,
    },
    figures=(
        *popularity.FIGURES,
        *aggregation.FIGURES,
        *identification.FIGURES,
        *layout.FIGURES,
        *loss.FIGURES,
        *live.FIGURES,
    ),
)
