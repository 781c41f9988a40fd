"""Zebra: sums of the hot parameters of sparse models, on a switch."""

from wiresum.reproduce.row import Paper
from wiresum.reproduce.zebra import aggregation, identification, layout, loss, popularity, switch

PAPER = Paper(
    title="Pan et al., “Zebra: Accelerating Distributed Sparse Deep Training With in-Network Gradient Aggregation for "
    "Hot Parameters”",
    conditions="counted on traces with the popularity of Fig. 4; 256 samples of 100 lookups a worker, which the paper "
    "does not state",
    rows=sorted(
        (*popularity.ROWS, *aggregation.ROWS, *identification.ROWS, *layout.ROWS, *loss.ROWS, *switch.ROWS),
        key=lambda row: int(row.id[1:]),
    ),
    benchmarks={
        **popularity.BENCHMARKS,
        **aggregation.BENCHMARKS,
        **identification.BENCHMARKS,
        **layout.BENCHMARKS,
        **loss.BENCHMARKS,
    },
    figures=(*popularity.FIGURES, *aggregation.FIGURES, *identification.FIGURES, *layout.FIGURES, *loss.FIGURES),
)
