"""`wiresum bench circuits`."""

from typing import Annotated

import typer

from wiresum.bench.command import Output, RunsOption, command, limited, measuring, show
from wiresum.commandline.quantities import parse_seconds


@command("Running aggregators", "--dark 20ms --runs 100", {"circuits": "--runs 200"}, quick="--ports 8 --runs 4")
def circuits(
    rate: Annotated[str, typer.Option("--rate", help="Rate of fibres")] = "100mbit",
    dark: Annotated[str, typer.Option("--dark", help="Time without light after an order")] = "20ms",
    settle: Annotated[str, typer.Option("--settle", help="Time from light to traffic")] = "0ms",
    ports: Annotated[int, typer.Option("--ports", min=4, help="Ports that one order changes")] = 64,
    runs: RunsOption = 50,
    *,
    output: Output,
) -> None:
    """Measure an emulated optical switch (order to light, large orders, lost frames, rate) and every driver."""
    from wiresum.bench.circuits.measure import Options, measure

    chosen = Options(limited(rate), parse_seconds(dark), parse_seconds(settle), ports, runs)
    with measuring("an optical switch", output) as status:
        report = measure(chosen, status.say)
    show(report, output)
