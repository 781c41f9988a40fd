"""`wiresum bench aggregator`."""

from pathlib import Path
from typing import Annotated, get_args

import typer

from wiresum.bench.command import RunsOption, command, one_of, show
from wiresum.commandline import options
from wiresum.commandline.console import err, note
from wiresum.commandline.quantities import parse_numbers
from wiresum.plan.choices import Engine

LIVE_VALUES = "64,128,256,512,736"
LIVE_RATES = "25000,50000,100000,200000,400000"


@command(
    "Packets, on one core",
    "--engines xdp,af_xdp,udp,tcp --plot plots",
    {"aggregator": "", "aggregator-engines": "--engines xdp,af_xdp,udp,tcp --runs 3 --plot build/bench"},
)
def aggregator(
    engines: Annotated[
        str | None,
        typer.Option("--engines", help="Engines to measure live over a veth pair, comma-separated: xdp,af_xdp,udp,tcp"),
    ] = None,
    values: Annotated[
        str, typer.Option("--values", help="Values in a live packet, comma-separated, from 64 on")
    ] = LIVE_VALUES,
    rates: Annotated[
        str, typer.Option("--rates", help="Rates of the live load in packets/s, comma-separated")
    ] = LIVE_RATES,
    children: Annotated[
        int, typer.Option("--children", min=1, max=8, help="Number of children of the live aggregator")
    ] = 4,
    seconds: Annotated[float, typer.Option("--seconds", min=0.05, help="Seconds of each live run")] = 1.0,
    offloads: Annotated[
        bool, typer.Option("--offloads", help="Leave the offloads that split and merge packets on")
    ] = False,
    plot: Annotated[Path | None, typer.Option("--plot", help="Folder for pictures of the live figures")] = None,
    runs: RunsOption = 7,
    as_json: options.JsonOption = False,
) -> None:
    """Time one packet in the kernel's test-run and in memory, hot and cold; or, with --engines, each engine live."""
    if engines is None:
        from wiresum.bench import native

        with err().status("packets through the kernel's test-run and through user space"):
            show(native.aggregator(runs), as_json)
        return
    from wiresum.bench.aggregator import measure as benchmark
    from wiresum.bench.aggregator import plot as aggregator_plots

    chosen = benchmark.Options(
        engines=tuple(one_of(name, get_args(Engine), "--engines") for name in engines.split(",")),
        values=tuple(int(number) for number in parse_numbers(values)),
        rates=tuple(parse_numbers(rates)),
        children=children,
        seconds=seconds,
        runs=runs,
        offloads=offloads,
    )
    with err().status("two hosts") as status:
        report = benchmark.measure(chosen, status.update)
    if plot:
        for path in aggregator_plots.draw(report, plot):
            note(f"drew {path}")
    show(report, as_json)
