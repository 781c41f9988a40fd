"""`wiresum bench forest`."""

from dataclasses import dataclass
from typing import Annotated

import typer

from wiresum.bench.command import Output, RunsOption, command, limited, measuring, show, suitable_engine
from wiresum.commandline import options
from wiresum.commandline.console import note
from wiresum.commandline.groups import text
from wiresum.commandline.quantities import parse_size
from wiresum.plan.choices import DEFAULT_MTU_BYTES, Engine


@dataclass(frozen=True)
class Options:
    """What to measure, on which links.

    Attributes:
        warmups: all-reduces before those that are measured.
        mtu_bytes: of the links.
    """

    workers: Annotated[
        int, typer.Option("--workers", "-n", min=1, help="Number of hosts that train; 1 to as many servers sum")
    ] = 4
    rate_bps: Annotated[float, typer.Option("--rate", help="Rate of each link, each way: 200mbit, 1gbit")] = text(
        "200mbit", limited
    )
    size_bytes: Annotated[int, typer.Option("--size", help="Size of the float32 tensor: 10MB, 64KiB")] = text(
        "10MB", parse_size
    )
    repeats: RunsOption = 5
    warmups: int = 1
    policy: options.PolicyOption = "pool"
    engine: Annotated[Engine, options.ENGINE] = suitable_engine()
    mtu_bytes: int = DEFAULT_MTU_BYTES


@command(
    "All-reduces and trainings",
    "--workers 4 --rate 200mbit --size 10MB --plot forest.png",
    {"forest": "--workers 4 --rate 200mbit --size 10MB --runs 3", "forest-solver": "--solver-only"},
    quick="--workers 2 --size 1MB --runs 1",
)
def forest(
    chosen: Options,
    solver_only: Annotated[
        bool, typer.Option("--solver-only", help="Plan only, on growing networks, and show seconds, gap and trees")
    ] = False,
    time_limit: Annotated[float, typer.Option("--time-limit", help="Seconds for each plan of --solver-only")] = 30.0,
    plot: options.PlotOption = None,
    *,
    output: Output,
) -> None:
    """Time all-reduces over one to n servers with the workers' links, beside the bound and Gloo's ring."""
    from wiresum.bench.forest import measure as benchmark
    from wiresum.bench.forest import solver as forest_solver

    if solver_only:
        with measuring("plans of growing networks", output):
            report = forest_solver.measure(time_limit, note)
        show(report, output)
        return
    with measuring("all-reduces over forests", output):
        report = benchmark.measure(chosen, note)
    if plot:
        benchmark.draw(report, plot)
        note(f"{plot}: times by number of servers")
    show(report, output)
