"""`wiresum bench aggregator`."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, get_args

import typer

from wiresum.bench.command import Output, RunsOption, command, measuring, one_of, show
from wiresum.commandline.console import note
from wiresum.commandline.groups import Reading, read, text
from wiresum.commandline.quantities import parse_numbers
from wiresum.plan.choices import Engine


def _engines(given: str | None) -> tuple[Engine, ...]:
    return tuple(one_of(name, get_args(Engine), "--engines") for name in given.split(",")) if given else ()


@dataclass(frozen=True)
class Options:
    """What to measure live; nothing where no engine is named.

    Attributes:
        load_values: values in a packet while the load is varied.
    """

    engines: Annotated[
        tuple[Engine, ...],
        typer.Option("--engines", help="Engines to measure live over a veth pair, comma-separated: xdp,af_xdp,udp,tcp"),
    ] = read(get_args(Engine), Reading(str | None, None, _engines))
    values: Annotated[
        Sequence[int], typer.Option("--values", help="Values in a live packet, comma-separated, from 64 on")
    ] = text("64,128,256,512,736", lambda given: tuple(int(number) for number in parse_numbers(given)))
    load_values: int = 256
    rates: Annotated[
        Sequence[float], typer.Option("--rates", help="Rates of the live load in packets/s, comma-separated")
    ] = text("25000,50000,100000,200000,400000", parse_numbers)
    children: Annotated[
        int, typer.Option("--children", min=1, max=8, help="Number of children of the live aggregator")
    ] = 4
    seconds: Annotated[float, typer.Option("--seconds", min=0.05, help="Seconds of each live run")] = 1.0
    runs: RunsOption = 7
    offloads: Annotated[bool, typer.Option("--offloads", help="Leave the offloads that split and merge packets on")] = (
        False
    )


@command(
    "Packets, on one core",
    "--engines xdp,af_xdp,udp,tcp --plot plots",
    {"aggregator": "", "aggregator-engines": "--engines xdp,af_xdp,udp,tcp --runs 3 --plot build/bench"},
    quick="--runs 1",
)
def aggregator(
    chosen: Options,
    plot: Annotated[Path | None, typer.Option("--plot", help="Folder for pictures of the live figures")] = None,
    *,
    output: Output,
) -> None:
    """Time one packet in the kernel's test-run and in memory, hot and cold; or, with --engines, each engine live."""
    if not chosen.engines:
        from wiresum.bench import native

        with measuring("packets through the kernel's test-run and through user space", output):
            report = native.aggregator(chosen.runs)
        show(report, output)
        return
    from wiresum.bench.aggregator import measure as benchmark
    from wiresum.bench.aggregator import plot as aggregator_plots

    with measuring("two hosts", output) as status:
        report = benchmark.measure(chosen, status.say)
    if plot:
        for path in aggregator_plots.draw(report, plot):
            note(f"drew {path}")
    show(report, output)
