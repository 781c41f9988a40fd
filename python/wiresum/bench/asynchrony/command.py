"""`wiresum bench asynchrony`: methods while workers get out of step; a table, JSON and a picture from one call."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from wiresum.bench.command import Output, command, measuring, one_of, show
from wiresum.commandline.console import note, out
from wiresum.commandline.groups import Reading, read, text
from wiresum.commandline.quantities import parse_size

if TYPE_CHECKING:
    from wiresum.bench.result import Report

NARROWEST = 170
"""Columns of the tables where standard output is no terminal, or a narrow one."""
COMPUTING = 5.0
"""Mean computing time, over what the gradient takes on an undisturbed link: GOAT's testbed has 1.84 s beside 0.36 s
(§VII-B, Exp. 2)."""
RATE_BPS = 10e9
VALUES = 352
"""int32 values of a packet of 1,500 bytes."""
LANE_BYTES = 4


def _deviations(given: str) -> tuple[float, ...]:
    try:
        chosen = tuple(float(text) for text in given.split(","))
    except ValueError:
        chosen = ()
    if not chosen or not all(0 <= one <= 1 for one in chosen):
        raise typer.BadParameter(
            f"{given}: give fractions of the mean from 0 to 1, as 0,0.2", param_hint="--deviations"
        )
    return chosen


def _methods(given: str | None) -> tuple[str, ...]:
    from wiresum.bench.methods import METHODS

    return tuple(one_of(name, tuple(METHODS), "--methods") for name in given.split(",")) if given else ()


@dataclass(frozen=True)
class Options:
    """What to simulate; all methods where none is named.

    The default memory holds as much of a gradient as GOAT's 60 of 240 MB.
    """

    methods: Annotated[
        Sequence[str], typer.Option("--methods", help="Methods to simulate, comma-separated [default: all]")
    ] = read((), Reading(str | None, None, _methods))
    deviations: Annotated[
        Sequence[float],
        typer.Option("--deviations", help="Standard deviations of computing times, as shares of their mean"),
    ] = text("0,0.1,0.2,0.3,0.4,0.5,0.6", _deviations)
    seeds: Annotated[
        int, typer.Option("--seeds", min=1, help="Number of random networks and computing times for each point")
    ] = 5
    workers: Annotated[
        int, typer.Option("--workers", "-n", min=2, max=49, help="Number of workers of all jobs together")
    ] = 35
    jobs: Annotated[
        int, typer.Option("--jobs", min=1, max=8, help="Number of jobs at the same time, on the same switches")
    ] = 1
    size_bytes: Annotated[int, typer.Option("--size", help="Size of the gradient")] = text("8MB", parse_size)
    memory_bytes: Annotated[int, typer.Option("--memory", help="Memory of each switch that sums, for all jobs")] = text(
        "2MB", parse_size
    )
    rounds: Annotated[int, typer.Option("--rounds", min=1, help="Number of rounds of each job")] = 5

    @property
    def fragments(self) -> int:
        """Packets of a gradient."""
        return math.ceil(self.size_bytes / LANE_BYTES / VALUES)

    @property
    def wire_bytes(self) -> int:
        """Bytes of a gradient, headers included."""
        from wiresum.plan.fabric import PACKET_OVERHEAD

        return self.fragments * (PACKET_OVERHEAD + LANE_BYTES * VALUES)

    @property
    def compute_s(self) -> float:
        """Mean computing time."""
        return COMPUTING * 8 * self.wire_bytes / RATE_BPS

    @property
    def slots(self) -> int:
        """Packets that a switch holds for each job."""
        return max(1, self.memory_bytes // (LANE_BYTES * VALUES) // self.jobs)


@command(
    "Planners, simulator, networks of switches",
    "--seeds 5 --plot asynchrony.png --store asynchrony.jsonl",
    quick="--deviations 0,0.3 --seeds 1 --size 1MB --memory 256KiB --rounds 2",
)
def asynchrony(
    chosen: Options,
    store: Annotated[
        Path | None, typer.Option("--store", help="File for results; results that it has are not simulated again")
    ] = None,
    plot: Annotated[Path | None, typer.Option("--plot", help="File for a picture with curves, as .png or .svg")] = None,
    *,
    output: Output,
) -> None:
    """Simulate every method's switches while workers get out of step (GOAT, Fig. 16), beside ring and BytePS."""
    from wiresum.bench.asynchrony import measure as benchmark

    with measuring("runs of switches", output) as status:
        report = benchmark.measure(chosen, store, status.reach)
    if plot:
        from wiresum.bench.asynchrony.plot import draw

        draw(report, plot)
        note(f"{plot}: methods by deviation")
    show(report, output, lambda made: _tell(made, benchmark.QUANTITIES))


def _tell(report: Report, quantities: dict[str, str]) -> None:
    """A table for each quantity: methods down, deviations across; the median, and the range where there is one."""
    from rich.box import SIMPLE_HEAD

    from wiresum.commandline.tables import figures, print_wide

    for quantity, words in quantities.items():
        found = [result for result in report.results if result.extra["quantity"] == quantity]
        sigmas = list(dict.fromkeys(result.extra["deviation"] for result in found))
        title = f"{words}: median (least–most)"
        columns = ("σ", *(f"{sigma:g}" for sigma in sigmas))
        shown = figures(columns, ("σ",), unbroken=True, title=title, title_justify="left", box=SIMPLE_HEAD)
        for method in dict.fromkeys(result.extra["method"] for result in found):
            own = [result for result in found if result.extra["method"] == method]
            cells = [_cell(result.median, min(result.runs), max(result.runs)) for result in own]
            shown.add_row(method, *cells)
        print_wide(shown, NARROWEST)
    for line in report.notes:
        out().print(line, markup=False)


def _cell(median: float, least: float, most: float) -> str:
    shown = [f"{round(value, 2):.3g}" for value in (median, least, most)]
    return shown[0] if shown[1] == shown[2] else f"{shown[0]} ({shown[1]}–{shown[2]})"
