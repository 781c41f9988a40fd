"""`wiresum bench loss`."""

from pathlib import Path
from typing import Annotated

import typer

from wiresum.bench.command import ENGINES, POLICIES, RunsOption, command, one_of, show
from wiresum.commandline import options
from wiresum.commandline.console import err, note
from wiresum.commandline.quantities import parse_fraction, parse_size

LOSSES = "0,0.01%,0.1%,1%,2%,5%"


@command(
    "All-reduces and trainings",
    "--losses 0,1% --topologies star --engines xdp --policies pool",
    {"loss": "--losses 0,1%,5% --size 4MB --runs 3"},
)
def loss(
    losses: Annotated[
        str, typer.Option("--losses", help="Shares of packets that every link loses, each way, comma-separated")
    ] = LOSSES,
    topologies: Annotated[
        str, typer.Option("--topologies", help="Topologies to measure, comma-separated: star,xagg")
    ] = "star,xagg",
    engines: Annotated[str, typer.Option("--engines", help="Engines to measure, comma-separated: xdp,udp")] = "xdp,udp",
    policies: Annotated[
        str, typer.Option("--policies", help="Policies to measure, comma-separated: pool,cache")
    ] = "pool,cache",
    size: Annotated[str, typer.Option("--size", help="Size of the float32 tensor")] = "8MB",
    plot: Annotated[Path | None, typer.Option("--plot", help="Folder for a picture")] = None,
    runs: RunsOption = 3,
    as_json: options.JsonOption = False,
) -> None:
    """Time all-reduces over links that lose packets, beside Gloo's ring over TCP; every sum is checked."""
    from wiresum.bench.loss import measure as benchmark

    chosen = benchmark.Options(
        losses=tuple(parse_fraction(text) for text in losses.split(",")),
        topologies=tuple(one_of(name, ("star", "xagg"), "--topologies") for name in topologies.split(",")),
        engines=tuple(one_of(name, ENGINES, "--engines") for name in engines.split(",")),
        policies=tuple(one_of(name, POLICIES, "--policies") for name in policies.split(",")),
        size_bytes=parse_size(size),
        repeats=runs,
    )
    with err().status("lossy links") as status:
        report = benchmark.measure(chosen, status.update)
    if plot:
        note(f"drew {benchmark.draw(report, plot)}")
    show(report, as_json)
