"""P4INC-AOI: jobs, sums in switches and optical circuits scheduled together (§ numbers are the paper's)."""

from wiresum.reproduce import TITLES
from wiresum.reproduce.p4inc_aoi import example, large, mapreduce, small, testbed, throughput
from wiresum.reproduce.row import Paper

PARTS = (throughput, testbed, small, large, mapreduce, example)
PAPER = Paper(
    title=TITLES["p4inc-aoi"],
    conditions="planned slot by slot, or simulated as flows over circuits that change, at the paper's rates",
    rows=sorted((row for part in PARTS for row in part.ROWS), key=lambda row: int(row.id[1:])),
    benchmarks={name: one for part in PARTS for name, one in part.BENCHMARKS.items()},
    figures=tuple(figure for part in PARTS for figure in part.FIGURES),
)
