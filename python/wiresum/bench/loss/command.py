"""`wiresum bench loss`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from wiresum.bench.command import ENGINES, POLICIES, Output, RunsOption, command, measuring, show, some_of
from wiresum.commandline.console import note
from wiresum.commandline.groups import text
from wiresum.commandline.quantities import parse_fraction, parse_size
from wiresum.plan.choices import Engine, Policy


@dataclass(frozen=True)
class Options:
    """What to measure.

    Attributes:
        warmups: all-reduces of each case before those that are measured.
        seed: chooses the packets that are lost.
    """

    losses: Annotated[
        tuple[float, ...],
        typer.Option("--losses", help="Shares of packets that every link loses, each way, comma-separated"),
    ] = text("0,0.01%,0.1%,1%,2%,5%", lambda given: tuple(map(parse_fraction, given.split(","))))
    topologies: Annotated[
        tuple[str, ...], typer.Option("--topologies", help="Topologies to measure, comma-separated: star,xagg")
    ] = some_of(("star", "xagg"), "--topologies")
    engines: Annotated[
        tuple[Engine, ...], typer.Option("--engines", help="Engines to measure, comma-separated: xdp,udp")
    ] = some_of(ENGINES, "--engines")
    policies: Annotated[
        tuple[Policy, ...], typer.Option("--policies", help="Policies to measure, comma-separated: pool,cache")
    ] = some_of(POLICIES, "--policies")
    size_bytes: Annotated[int, typer.Option("--size", help="Size of the float32 tensor")] = text("8MB", parse_size)
    repeats: RunsOption = 3
    warmups: int = 1
    seed: int = 1


@command(
    "All-reduces and trainings",
    "--losses 0,1% --topologies star --engines xdp --policies pool",
    {"loss": "--losses 0,1%,5% --size 4MB --runs 3"},
    quick="--losses 0,1% --topologies star --engines udp --policies pool --size 1MB --runs 1",
)
def loss(
    chosen: Options,
    plot: Annotated[Path | None, typer.Option("--plot", help="Folder for a picture")] = None,
    *,
    output: Output,
) -> None:
    """Time all-reduces over links that lose packets, beside Gloo's ring over TCP; every sum is checked."""
    from wiresum.bench.loss import measure as benchmark

    with measuring("lossy links", output) as status:
        report = benchmark.measure(chosen, status.say)
    if plot:
        note(f"drew {benchmark.draw(report, plot)}")
    show(report, output)
