"""`wiresum bench isolation`."""

from dataclasses import dataclass
from typing import Annotated

import typer

from wiresum.bench.command import ENGINES, Output, RunsOption, command, measuring, show, some_of
from wiresum.commandline.groups import text
from wiresum.commandline.quantities import parse_rate
from wiresum.plan.choices import Engine


def quota_bps(given: str) -> float:
    """bit/s of a quota, which is not `none`."""
    rate_bps = parse_rate(given)
    if rate_bps is None:
        raise typer.BadParameter("a quota is a rate, as 50mbit", param_hint="--quota")
    return rate_bps


@dataclass(frozen=True)
class Options:
    """What to measure."""

    engines: Annotated[
        tuple[Engine, ...], typer.Option("--engines", help="Engines to compare, comma-separated: xdp,udp")
    ] = some_of(ENGINES, "--engines")
    rate_bps: Annotated[float | None, typer.Option("--rate", help="Rate of each link: 500mbit, none")] = text(
        "500mbit", parse_rate
    )
    quota_bps: Annotated[float, typer.Option("--quota", help="Quota of the greedy job, in the runs with one")] = text(
        "50mbit", quota_bps
    )
    seconds: Annotated[float, typer.Option("--seconds", min=0.1, help="Seconds of each run")] = 1.0
    runs: RunsOption = 3


@command(
    "Running aggregators",
    "--engines xdp --rate 500mbit",
    {"isolation": "--runs 3"},
    quick="--engines udp --seconds 0.2 --runs 1",
)
def isolation(chosen: Options, *, output: Output) -> None:
    """Measure what floods at one host cost another host's job at the same server, with and without quotas."""
    from wiresum.bench.isolation import measure as benchmark

    with measuring("two hosts around a server", output) as status:
        report = benchmark.measure(chosen, status.say)
    show(report, output)
