"""`wiresum bench coflows`."""

from pathlib import Path
from typing import Annotated

import typer

from wiresum.bench.command import command, show
from wiresum.commandline import options
from wiresum.commandline.console import note


@command("Planners, simulator, networks of switches", example="--quick", repeated={"coflows": "--coflows 60"})
def coflows(
    count: Annotated[
        int, typer.Option("--coflows", min=1, help="Number of coflows, the first ones of the trace")
    ] = 200,
    units: Annotated[int, typer.Option("--units", min=2, help="Number of units that the racks are folded on")] = 64,
    data_dir: Annotated[
        Path | None, typer.Option("--data-dir", help="Folder with Facebook's trace; coflows are made where absent")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Twenty coflows on eight units")] = False,
    as_json: options.JsonOption = False,
) -> None:
    """Schedule coflows over optical circuits: completion over the ports' bound, and mean completion, beside rivals."""
    from wiresum.bench.coflows import measure as benchmark

    chosen = benchmark.Options(20 if quick else count, 8 if quick else units, data_dir)
    show(benchmark.measure(chosen, note), as_json)
