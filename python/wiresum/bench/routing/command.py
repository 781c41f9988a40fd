"""`wiresum bench routing`."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import typer

from wiresum.bench.command import Output, command, measuring, show
from wiresum.commandline import options
from wiresum.commandline.console import note
from wiresum.commandline.groups import text
from wiresum.commandline.quantities import parse_numbers
from wiresum.plan.choices import DEFAULT_TIME_LIMIT_S


@dataclass(frozen=True)
class Options:
    """What to plan."""

    workers: Annotated[
        Sequence[int], typer.Option("--workers", help="Numbers of workers in the fat-tree, comma-separated")
    ] = text("10,30,50", lambda given: tuple(int(number) for number in parse_numbers(given)))
    seeds: Annotated[
        int, typer.Option("--seeds", min=1, help="Number of networks and places of workers, for each number of workers")
    ] = 3
    time_limit_s: options.TimeLimitOption = DEFAULT_TIME_LIMIT_S


@command(
    "Planners, simulator, networks of switches",
    "--workers 50 --seeds 1 --plot rates.png",
    quick="--workers 10 --seeds 1 --time-limit 5",
)
def routing(chosen: Options, plot: options.PlotOption = None, *, output: Output) -> None:
    """Plan InGo's networks: the rate that each planner leaves to a worker, beside the proven bound."""
    from wiresum.bench.routing import measure as benchmark

    with measuring("planners on InGo's networks", output):
        report = benchmark.measure(chosen, note)
    if plot:
        benchmark.draw(report, "mean_gbps", "fat-tree", plot)
        note(f"{plot}: rates by number of workers")
    show(report, output)
