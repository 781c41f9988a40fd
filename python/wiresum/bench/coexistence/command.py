"""`wiresum bench coexistence`."""

from typing import Annotated

import typer

from wiresum.bench.command import ENGINES, RunsOption, command, one_of, show
from wiresum.commandline import options
from wiresum.commandline.console import err
from wiresum.commandline.quantities import parse_numbers, parse_rate


@command("Running aggregators", "--engines xdp --seconds 1")
def coexistence(
    engines: Annotated[str, typer.Option("--engines", help="Engines to compare, comma-separated: xdp,udp")] = "xdp,udp",
    rate: Annotated[str, typer.Option("--rate", help="Rate of each link: 500mbit, none")] = "500mbit",
    loads: Annotated[
        str, typer.Option("--loads", help="Contributions per second of the job, comma-separated")
    ] = "5000,15000",
    seconds: Annotated[float, typer.Option("--seconds", min=0.1, help="Seconds of each run")] = 2.0,
    runs: RunsOption = 3,
    as_json: options.JsonOption = False,
) -> None:
    """Measure what a job and the TCP traffic of the same host and port cost each other."""
    from wiresum.bench.coexistence import measure as benchmark

    names = tuple(one_of(name, ENGINES, "--engines") for name in engines.split(","))
    chosen = benchmark.Options(names, parse_rate(rate), tuple(map(float, parse_numbers(loads))), seconds, runs)
    with err().status("a host and a server") as status:
        report = benchmark.measure(chosen, status.update)
    show(report, as_json)
