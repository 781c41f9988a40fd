"""`wiresum bench coexistence`."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import typer

from wiresum.bench.command import ENGINES, Output, RunsOption, command, measuring, show, some_of
from wiresum.commandline.groups import text
from wiresum.commandline.quantities import parse_numbers, parse_rate
from wiresum.plan.choices import Engine


@dataclass(frozen=True)
class Options:
    """What to measure."""

    engines: Annotated[
        tuple[Engine, ...], typer.Option("--engines", help="Engines to compare, comma-separated: xdp,udp")
    ] = some_of(ENGINES, "--engines")
    rate_bps: Annotated[float | None, typer.Option("--rate", help="Rate of each link: 500mbit, none")] = text(
        "500mbit", parse_rate
    )
    loads: Annotated[
        Sequence[float], typer.Option("--loads", help="Contributions per second of the job, comma-separated")
    ] = text("5000,15000", parse_numbers)
    seconds: Annotated[float, typer.Option("--seconds", min=0.1, help="Seconds of each run")] = 2.0
    runs: RunsOption = 3


@command("Running aggregators", "--engines xdp --seconds 1", quick="--engines udp --loads 2000 --seconds 0.3 --runs 1")
def coexistence(chosen: Options, *, output: Output) -> None:
    """Measure what a job and the TCP traffic of the same host and port cost each other."""
    from wiresum.bench.coexistence import measure as benchmark

    with measuring("a host and a server", output) as status:
        report = benchmark.measure(chosen, status.say)
    show(report, output)
