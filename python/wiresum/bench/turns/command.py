"""`wiresum bench turns`."""

from typing import Annotated

import typer

from wiresum.bench.command import Output, RunsOption, command, limited, measuring, show
from wiresum.commandline.quantities import parse_seconds, parse_size


@command(
    "Running aggregators",
    "--rate 50mbit --dark 20ms --runs 5",
    {"turns": "--runs 7"},
    quick="--size 1MB --large 1MB --runs 1",
)
def turns(
    rate: Annotated[str, typer.Option("--rate", help="Rate of every link")] = "50mbit",
    dark: Annotated[str, typer.Option("--dark", help="Time without light after an order")] = "20ms",
    settle: Annotated[str, typer.Option("--settle", help="Time from light to traffic")] = "0ms",
    size: Annotated[str, typer.Option("--size", help="Gradient that is under way when circuits change")] = "4MB",
    large: Annotated[str, typer.Option("--large", help="Gradient with and without gates")] = "25MB",
    protocol: Annotated[
        str, typer.Option("--protocol", help="Protocol by which the optical switch is ordered")
    ] = "emulated",
    runs: RunsOption = 5,
    *,
    output: Output,
) -> None:
    """Measure pauses when circuits change under a job, announced or not, and what gates cost an all-reduce."""
    from wiresum.bench.turns.measure import Options, measure

    chosen = Options(
        rate_bps=limited(rate),
        dark_s=parse_seconds(dark),
        settle_s=parse_seconds(settle),
        size_bytes=parse_size(size),
        large_bytes=parse_size(large),
        protocol=protocol,
        runs=runs,
    )
    with measuring("turns", output) as status:
        report = measure(chosen, status.say)
    show(report, output)
