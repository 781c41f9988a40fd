"""`wiresum bench planners`."""

from dataclasses import dataclass
from typing import Annotated

import typer

from wiresum.bench.command import Output, command, measuring, show
from wiresum.commandline import options
from wiresum.commandline.console import note
from wiresum.plan.choices import DEFAULT_TIME_LIMIT_S


@dataclass(frozen=True)
class Options:
    """What to measure."""

    seeds: Annotated[int, typer.Option("--seeds", min=1, help="Number of seeds for the roundings")] = 30
    time_limit_s: options.TimeLimitOption = DEFAULT_TIME_LIMIT_S
    rival: Annotated[
        bool, typer.Option("--rival/--no-rival", help="Run PuLP and CBC on the formulation as printed, too")
    ] = True
    rival_limit_s: Annotated[
        float, typer.Option("--rival-limit", help="Seconds that the rival has for each network")
    ] = 120.0
    large: Annotated[bool, typer.Option("--large/--no-large", help="Plan a fat-tree of 1,280 switches, too")] = True


@command(
    "Planners, simulator, networks of switches",
    "--seeds 30 --rival-limit 300",
    quick="--seeds 1 --time-limit 5 --no-rival --no-large",
)
def planners(chosen: Options, *, output: Output) -> None:
    """Plan GOAT's networks, and a large one: optimality gap, feasibility and seconds, beside PuLP and CBC."""
    from wiresum.bench.planners import measure as benchmark

    with measuring("planners on GOAT's networks", output):
        report = benchmark.measure(chosen, note)
    show(report, output)
