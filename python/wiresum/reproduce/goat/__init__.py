"""GOAT: sub-models placed on switches (IEEE/ACM Transactions on Networking, 2024)."""

from wiresum.reproduce import TITLES
from wiresum.reproduce.goat import asynchronous, fat_tree, placement, public, simulation, testbed
from wiresum.reproduce.row import Paper

PAPER = Paper(
    title=TITLES["goat"],
    conditions="planned: bytes on links over shortest paths; simulated: switch programs, trains of 16 packets; "
    "live: a small network on handwritten digits",
    rows=sorted(
        (*asynchronous.ROWS, *fat_tree.ROWS, *placement.ROWS, *public.ROWS, *simulation.ROWS, *testbed.ROWS),
        key=lambda row: row.id,
    ),
    benchmarks={**testbed.BENCHMARKS, **fat_tree.BENCHMARKS, **simulation.BENCHMARKS, **asynchronous.BENCHMARKS},
    figures=(*testbed.FIGURES, *asynchronous.FIGURES, *fat_tree.FIGURES, *simulation.FIGURES),
)
