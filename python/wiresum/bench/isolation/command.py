"""`wiresum bench isolation`."""

from typing import Annotated

import typer

from wiresum.bench.command import ENGINES, RunsOption, command, one_of, show
from wiresum.commandline import options
from wiresum.commandline.console import err
from wiresum.commandline.quantities import parse_rate


@command("Running aggregators", "--engines xdp --rate 500mbit", {"isolation": "--runs 3"})
def isolation(
    engines: Annotated[str, typer.Option("--engines", help="Engines to compare, comma-separated: xdp,udp")] = "xdp,udp",
    rate: Annotated[str, typer.Option("--rate", help="Rate of each link: 500mbit, none")] = "500mbit",
    quota: Annotated[str, typer.Option("--quota", help="Quota of the greedy job, in the runs with one")] = "50mbit",
    seconds: Annotated[float, typer.Option("--seconds", min=0.1, help="Seconds of each run")] = 1.0,
    runs: RunsOption = 3,
    as_json: options.JsonOption = False,
) -> None:
    """Measure what floods at one host cost another host's job at the same server, with and without quotas."""
    from wiresum.bench.isolation import measure as benchmark

    quota_bps = parse_rate(quota)
    if quota_bps is None:
        raise typer.BadParameter("a quota is a rate, as 50mbit", param_hint="--quota")
    names = tuple(one_of(name, ENGINES, "--engines") for name in engines.split(","))
    chosen = benchmark.Options(names, parse_rate(rate), quota_bps, seconds, runs)
    with err().status("two hosts around a server") as status:
        report = benchmark.measure(chosen, status.update)
    show(report, as_json)
