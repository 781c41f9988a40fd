"""`wiresum bench circuits`."""

from dataclasses import dataclass
from typing import Annotated

import typer

from wiresum.bench.command import Output, RunsOption, command, limited, measuring, show
from wiresum.commandline.groups import text
from wiresum.commandline.quantities import parse_seconds


@dataclass(frozen=True)
class Options:
    """What to measure."""

    rate_bps: Annotated[float, typer.Option("--rate", help="Rate of fibres")] = text("100mbit", limited)
    dark_s: Annotated[float, typer.Option("--dark", help="Time without light after an order")] = text(
        "20ms", parse_seconds
    )
    settle_s: Annotated[float, typer.Option("--settle", help="Time from light to traffic")] = text("0ms", parse_seconds)
    ports: Annotated[int, typer.Option("--ports", min=4, help="Ports that one order changes")] = 64
    runs: RunsOption = 50


@command("Running aggregators", "--dark 20ms --runs 100", {"circuits": "--runs 200"}, quick="--ports 8 --runs 4")
def circuits(chosen: Options, *, output: Output) -> None:
    """Measure an emulated optical switch (order to light, large orders, lost frames, rate) and every driver."""
    from wiresum.bench.circuits.measure import measure

    with measuring("an optical switch", output) as status:
        report = measure(chosen, status.say)
    show(report, output)
