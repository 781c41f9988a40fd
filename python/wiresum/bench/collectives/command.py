"""`wiresum bench collectives`."""

from dataclasses import dataclass
from typing import Annotated

import typer

from wiresum.bench.command import Output, RunsOption, command, limited, measuring, one_of, show, suitable_engine
from wiresum.commandline import options
from wiresum.commandline.console import note
from wiresum.commandline.groups import repeated, text
from wiresum.commandline.quantities import parse_size
from wiresum.plan.choices import COLLECTIVES, ElementType, Engine


@dataclass(frozen=True)
class Options:
    """What to measure, on which links.

    Attributes:
        servers: around a switch that only forwards; none: the switch sums.
        warmups: rounds of all collectives through all backends before those that are measured.
    """

    workers: Annotated[
        int, typer.Option("--workers", "-n", min=2, help="Number of hosts around a switch that sums")
    ] = 4
    rate_bps: Annotated[float, typer.Option("--rate", help="Rate of each link, each way: 500mbit, 1gbit")] = text(
        "500mbit", limited
    )
    size_bytes: Annotated[int, typer.Option("--size", help="Size of the unsharded tensor: 25MB, 64KiB")] = text(
        "25MB", parse_size
    )
    collectives: Annotated[
        tuple[str, ...], typer.Option("--collective", help=f"Collective: {', '.join(COLLECTIVES)}; repeatable")
    ] = repeated(*COLLECTIVES)
    dtype: Annotated[ElementType, typer.Option("--dtype", help="Element type of the tensors")] = "float32"
    against: Annotated[tuple[str, ...], typer.Option("--against", help="Rival, a backend; repeatable")] = repeated(
        "gloo"
    )
    servers: Annotated[
        int,
        typer.Option(
            "--servers",
            min=0,
            help="Number of hosts that sum, with the workers' links: one exchanges, then all; 0: the switch sums",
        ),
    ] = 0
    repeats: RunsOption = 7
    warmups: int = 1
    lanes: options.LanesOption = "auto"
    engine: Annotated[Engine, options.ENGINE] = suitable_engine()


@command(
    "All-reduces and trainings",
    "--workers 4 --rate 500mbit --collective reduce_scatter --collective pair --against gloo",
    {
        "collectives-4": "--workers 4 --rate 500mbit",
        "collectives-8": "--workers 8 --rate 250mbit",
        "collectives-4-bfloat16": "--workers 4 --rate 250mbit --size 12.5MB --dtype bfloat16",
        "collectives-servers": "--workers 4 --servers 4 --rate 200mbit --size 10MB --collective reduce_scatter "
        "--collective all_gather --collective pair",
    },
    quick="--workers 2 --size 1MB --runs 1",
)
def collectives(chosen: Options, *, output: Output) -> None:
    """Time sums for one rank each, copies, and both at once on shaped links, beside Gloo and the wire limit."""
    from wiresum.bench.collectives import measure as benchmark

    for name in chosen.collectives:
        one_of(name, COLLECTIVES, "--collective")
    links = f"{chosen.workers} workers at {chosen.rate_bps / 1e6:g} Mbit/s"
    with measuring(f"{links}: {', '.join(chosen.collectives)}", output):
        report = benchmark.measure(chosen, note)
    show(report, output)
