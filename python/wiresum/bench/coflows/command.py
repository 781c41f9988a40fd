"""`wiresum bench coflows`."""

from pathlib import Path
from typing import Annotated

import typer

from wiresum.bench.command import Output, command, measuring, show
from wiresum.commandline.console import note


@command(
    "Planners, simulator, networks of switches",
    "--coflows 60",
    {"coflows": "--coflows 60"},
    quick="--coflows 20 --units 8",
)
def coflows(
    count: Annotated[
        int, typer.Option("--coflows", min=1, help="Number of coflows, the first ones of the trace")
    ] = 200,
    units: Annotated[int, typer.Option("--units", min=2, help="Number of units that the racks are folded on")] = 64,
    data_dir: Annotated[
        Path | None, typer.Option("--data-dir", help="Folder with Facebook's trace; coflows are made where absent")
    ] = None,
    *,
    output: Output,
) -> None:
    """Schedule coflows over optical circuits: completion over the ports' bound, and mean completion, beside rivals."""
    from wiresum.bench.coflows import measure as benchmark

    chosen = benchmark.Options(count, units, data_dir)
    with measuring(f"{chosen.coflows} coflows", output):
        report = benchmark.measure(chosen, note)
    show(report, output)
