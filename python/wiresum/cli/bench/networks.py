"""Planners and the simulator, and what they promise, live."""

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from wiresum.cli.asynchrony import EXAMPLE, asynchrony
from wiresum.cli.bench.shared import RunsOption, limited, one_of, show
from wiresum.commandline import options
from wiresum.commandline.console import err, note
from wiresum.commandline.quantities import parse_numbers, parse_size
from wiresum.plan.choices import DEFAULT_TIME_LIMIT_S, SwitchEngine

app = typer.Typer()
command = partial(app.command, rich_help_panel="Planners, simulator, networks of switches")
command(epilog=EXAMPLE)(asynchrony)

SIM_CASES = "trains,packets,flows,memory"


@command(epilog="Example: `wiresum bench planners --seeds 30 --rival-limit 300`")
def planners(
    seeds: Annotated[int, typer.Option("--seeds", min=1, help="Number of seeds for the roundings")] = 30,
    time_limit: options.TimeLimitOption = DEFAULT_TIME_LIMIT_S,
    rival: Annotated[
        bool, typer.Option("--rival/--no-rival", help="Run PuLP and CBC on the formulation as printed, too")
    ] = True,
    rival_limit: Annotated[
        float, typer.Option("--rival-limit", help="Seconds that the rival has for each network")
    ] = 120.0,
    large: Annotated[bool, typer.Option("--large/--no-large", help="Plan a fat-tree of 1,280 switches, too")] = True,
    as_json: options.JsonOption = False,
) -> None:
    """Plan GOAT's networks, and a large one: optimality gap, feasibility and seconds, beside PuLP and CBC."""
    from wiresum.bench.planners import measure as benchmark

    chosen = benchmark.Options(seeds, time_limit, rival_limit if rival else 0.0, large)
    show(benchmark.measure(chosen, note), as_json)


@command(epilog="Example: `wiresum bench routing --workers 50 --seeds 1 --plot rates.png`")
def routing(
    workers: Annotated[
        str, typer.Option("--workers", help="Numbers of workers in the fat-tree, comma-separated")
    ] = "10,30,50",
    seeds: Annotated[
        int, typer.Option("--seeds", min=1, help="Number of networks and places of workers, for each number of workers")
    ] = 3,
    time_limit: options.TimeLimitOption = DEFAULT_TIME_LIMIT_S,
    plot: options.PlotOption = None,
    as_json: options.JsonOption = False,
) -> None:
    """Plan InGo's networks: the rate that each planner leaves to a worker, beside the proven bound."""
    from wiresum.bench.routing import measure as benchmark

    numbers = [int(number) for number in parse_numbers(workers)]
    report = benchmark.measure(benchmark.Options(numbers, seeds, time_limit), note)
    if plot:
        benchmark.draw(report, "mean_gbps", "fat-tree", plot)
        note(f"{plot}: rates by number of workers")
    show(report, as_json)


@command(epilog="Example: `wiresum bench sim --fidelities trains,flows --runs 1`")
def sim(
    fidelities: Annotated[
        str, typer.Option("--fidelities", help="Fidelities to measure, comma-separated: trains,packets,flows,memory")
    ] = SIM_CASES,
    scale: Annotated[float, typer.Option("--scale", min=0.0001, help="Factor on the bytes that are sent")] = 1.0,
    htsim: Annotated[
        Path | None, typer.Option("--htsim", help="Path of csg-htsim's htsim_ndp, to run beside packets, turn by turn")
    ] = None,
    keep: Annotated[Path | None, typer.Option("--keep", help="Folder for the resolved scenarios")] = None,
    runs: RunsOption = 3,
    as_json: options.JsonOption = False,
) -> None:
    """Measure how fast the simulator is at each fidelity, per second of CPU time, and what memory it takes."""
    from wiresum.bench.sim import measure as benchmark
    from wiresum.cli.simulate import load

    names = tuple(one_of(name, tuple(SIM_CASES.split(",")), "--fidelities") for name in fidelities.split(","))
    chosen = benchmark.Options(names, runs, scale, htsim, keep)
    with err().status("virtual time") as status:
        report = benchmark.measure(chosen, load, status.update)
    show(report, as_json)


@command(epilog="Example: `wiresum bench live --rate 100mbit --size 8MB --json`")
def live(
    rate: Annotated[str, typer.Option("--rate", help="Rate of each link, each way: 100mbit")] = "100mbit",
    size: Annotated[str, typer.Option("--size", help="Size of the float32 tensor: 8MB")] = "8MB",
    engine: Annotated[SwitchEngine, typer.Option("--engine", help="What runs the switches")] = "udp",
    cases: Annotated[
        list[str] | None, typer.Option("--case", help="Name of a case to run; repeatable [default: all]")
    ] = None,
    runs: RunsOption = 5,
    as_json: options.JsonOption = False,
) -> None:
    """Run plans of switch planners in namespaces: bytes on each link and the rate, beside what they predict."""
    from wiresum.bench.live import measure as benchmark

    chosen = benchmark.Options(
        rate_bps=limited(rate), size_bytes=parse_size(size), repeats=runs, engine=engine, cases=tuple(cases or ())
    )
    show(benchmark.measure(chosen, note), as_json)
