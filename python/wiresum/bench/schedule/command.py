"""`wiresum bench schedule`."""

from typing import Annotated

import typer

from wiresum.bench.command import command, show
from wiresum.commandline import options
from wiresum.commandline.console import note


@command("Planners, simulator, networks of switches", example="--quick", repeated={"schedule": "--seeds 5"})
def schedule(
    seeds: Annotated[int, typer.Option("--seeds", min=1, help="Number of instances of each kind with 8 units")] = 40,
    large_seeds: Annotated[int, typer.Option("--large-seeds", min=0, help="The same, with 64 units")] = 3,
    time_limit: Annotated[
        float, typer.Option("--time-limit", help="Seconds that HiGHS has for the bound of an instance with 8 units")
    ] = 20.0,
    quick: Annotated[
        bool, typer.Option("--quick", help="Two instances of 8 units, and one of each kind of 64")
    ] = False,
    as_json: options.JsonOption = False,
) -> None:
    """Schedule jobs over optical circuits: gap to the bound, completion and set-ups beside the rivals, seconds."""
    from wiresum.bench.schedule import measure as benchmark

    chosen = benchmark.Options(2 if quick else seeds, min(1, large_seeds) if quick else large_seeds, time_limit)
    show(benchmark.measure(chosen, note), as_json)
