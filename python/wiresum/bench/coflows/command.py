"""`wiresum bench coflows`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from wiresum.bench.command import Output, command, measuring, show
from wiresum.commandline.console import note


@dataclass(frozen=True)
class Options:
    """What to schedule; coflows are made where there is no folder with the trace.

    Attributes:
        matrices: of each kind and darkness, on 16 units at most.
    """

    coflows: Annotated[int, typer.Option("--coflows", min=1, help="Number of coflows, the first ones of the trace")] = (
        200
    )
    units: Annotated[int, typer.Option("--units", min=2, help="Number of units that the racks are folded on")] = 64
    data_dir: Annotated[
        Path | None, typer.Option("--data-dir", help="Folder with Facebook's trace; coflows are made where absent")
    ] = None
    matrices: int = 3


@command(
    "Planners, simulator, networks of switches",
    "--coflows 60",
    {"coflows": "--coflows 60"},
    quick="--coflows 20 --units 8",
)
def coflows(chosen: Options, *, output: Output) -> None:
    """Schedule coflows over optical circuits: completion over the ports' bound, and mean completion, beside rivals."""
    from wiresum.bench.coflows import measure as benchmark

    with measuring(f"{chosen.coflows} coflows", output):
        report = benchmark.measure(chosen, note)
    show(report, output)
