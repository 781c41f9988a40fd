"""`wiresum bench security`."""

from dataclasses import dataclass
from typing import Annotated

import typer

from wiresum.bench.command import ENGINES, RunsOption, command, show, some_of
from wiresum.commandline import options
from wiresum.commandline.console import err
from wiresum.commandline.groups import text
from wiresum.commandline.quantities import parse_rate
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
    workers: Annotated[int, typer.Option("--workers", min=1, max=64, help="Workers that join at once")] = 64
    seconds: Annotated[float, typer.Option("--seconds", min=0.1, help="Seconds of each run beside a flood")] = 1.0
    runs: RunsOption = 3


@command("Running aggregators", "--engines xdp --workers 64", {"security": "--runs 3"})
def security(chosen: Options, as_json: options.JsonOption = False) -> None:
    """Measure joins with proofs of keys, and what a job keeps beside floods of those who have no key."""
    from wiresum.bench.security import measure as benchmark

    with err().status("two hosts around a server") as status:
        report = benchmark.measure(chosen, status.update)
    show(report, as_json)
