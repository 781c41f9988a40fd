"""`wiresum bench turns`."""

from dataclasses import dataclass
from typing import Annotated

import typer

from wiresum.bench.command import Output, RunsOption, command, limited, measuring, show
from wiresum.commandline.groups import text
from wiresum.commandline.quantities import parse_seconds, parse_size


@dataclass(frozen=True)
class Options:
    """What to measure."""

    rate_bps: Annotated[float, typer.Option("--rate", help="Rate of every link")] = text("50mbit", limited)
    dark_s: Annotated[float, typer.Option("--dark", help="Time without light after an order")] = text(
        "20ms", parse_seconds
    )
    settle_s: Annotated[float, typer.Option("--settle", help="Time from light to traffic")] = text("0ms", parse_seconds)
    size_bytes: Annotated[int, typer.Option("--size", help="Gradient that is under way when circuits change")] = text(
        "4MB", parse_size
    )
    large_bytes: Annotated[int, typer.Option("--large", help="Gradient with and without gates")] = text(
        "25MB", parse_size
    )
    protocol: Annotated[str, typer.Option("--protocol", help="Protocol by which the optical switch is ordered")] = (
        "emulated"
    )
    runs: RunsOption = 5


@command(
    "Running aggregators",
    "--rate 50mbit --dark 20ms --runs 5",
    {"turns": "--runs 7"},
    quick="--size 1MB --large 1MB --runs 1",
)
def turns(chosen: Options, *, output: Output) -> None:
    """Measure pauses when circuits change under a job, announced or not, and what gates cost an all-reduce."""
    from wiresum.bench.turns.measure import measure

    with measuring("turns", output) as status:
        report = measure(chosen, status.say)
    show(report, output)
