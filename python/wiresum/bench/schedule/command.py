"""`wiresum bench schedule`."""

from dataclasses import dataclass
from typing import Annotated

import typer

from wiresum.bench.command import Output, command, measuring, show
from wiresum.commandline.console import note


@dataclass(frozen=True)
class Options:
    """What to schedule."""

    seeds: Annotated[int, typer.Option("--seeds", min=1, help="Number of instances of each kind with 8 units")] = 40
    large_seeds: Annotated[
        int, typer.Option("--large-seeds", min=0, help="Number of instances of each kind with 64 units")
    ] = 3
    time_limit_s: Annotated[
        float, typer.Option("--time-limit", help="Seconds that HiGHS has for the bound of an instance with 8 units")
    ] = 20.0


@command(
    "Planners, simulator, networks of switches",
    "--seeds 5",
    {"schedule": "--seeds 5"},
    quick="--seeds 2 --large-seeds 1 --time-limit 5",
)
def schedule(chosen: Options, *, output: Output) -> None:
    """Schedule jobs over optical circuits: gap to the bound, completion and set-ups beside the rivals, seconds."""
    from wiresum.bench.schedule import measure as benchmark

    with measuring("jobs over optical circuits", output):
        report = benchmark.measure(chosen, note)
    show(report, output)
