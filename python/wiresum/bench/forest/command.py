"""`wiresum bench forest`."""

from typing import Annotated

import typer

from wiresum.bench.command import RunsOption, command, limited, show
from wiresum.commandline import options
from wiresum.commandline.console import note
from wiresum.commandline.options import choose_engine
from wiresum.commandline.quantities import parse_size


@command(
    "All-reduces and trainings",
    "--workers 4 --rate 200mbit --size 10MB --plot forest.png",
    {"forest": "--workers 4 --rate 200mbit --size 10MB --runs 3", "forest-solver": "--solver-only"},
)
def forest(
    workers: Annotated[
        int, typer.Option("--workers", "-n", min=1, help="Number of hosts that train; 1 to as many servers sum")
    ] = 4,
    rate: Annotated[str, typer.Option("--rate", help="Rate of each link, each way: 200mbit, 1gbit")] = "200mbit",
    size: Annotated[str, typer.Option("--size", help="Size of the float32 tensor: 10MB, 64KiB")] = "10MB",
    policy: options.PolicyOption = "pool",
    engine: options.EngineOption = "auto",
    solver_only: Annotated[
        bool, typer.Option("--solver-only", help="Plan only, on growing networks, and show seconds, gap and trees")
    ] = False,
    time_limit: Annotated[float, typer.Option("--time-limit", help="Seconds for each plan of --solver-only")] = 30.0,
    plot: options.PlotOption = None,
    runs: RunsOption = 5,
    as_json: options.JsonOption = False,
) -> None:
    """Time all-reduces over one to n servers with the workers' links, beside the bound and Gloo's ring."""
    from wiresum.bench.forest import measure as benchmark
    from wiresum.bench.forest import solver as forest_solver

    if solver_only:
        show(forest_solver.measure(time_limit, note), as_json)
        return
    chosen = benchmark.Options(
        workers=workers,
        rate_bps=limited(rate),
        size_bytes=parse_size(size),
        repeats=runs,
        policy=policy,
        engine=choose_engine(engine, loopback=False),
    )
    report = benchmark.measure(chosen, note)
    if plot:
        benchmark.draw(report, plot)
        note(f"{plot}: times by number of servers")
    show(report, as_json)
