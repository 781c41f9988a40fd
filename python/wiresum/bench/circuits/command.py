"""`wiresum bench circuits`."""

from typing import Annotated

import typer

from wiresum.bench.command import RunsOption, command, limited, show
from wiresum.commandline import options
from wiresum.commandline.quantities import parse_seconds


@command("Running aggregators", "--dark 20ms --runs 100", {"circuits": "--runs 200"})
def circuits(
    rate: Annotated[str, typer.Option("--rate", help="Rate of fibres")] = "100mbit",
    dark: Annotated[str, typer.Option("--dark", help="Time without light after an order")] = "20ms",
    settle: Annotated[str, typer.Option("--settle", help="Time from light to traffic")] = "0ms",
    ports: Annotated[int, typer.Option("--ports", min=4, help="Ports that one order changes")] = 64,
    runs: RunsOption = 50,
    as_json: options.JsonOption = False,
) -> None:
    """Measure an emulated optical switch (order to light, large orders, lost frames, rate) and every driver."""
    from wiresum.bench.circuits.measure import Options, measure
    from wiresum.commandline.console import progress_bar

    chosen = Options(limited(rate), parse_seconds(dark), parse_seconds(settle), ports, runs)
    with progress_bar() as bar:
        task = bar.add_task("circuits", total=None)
        report = measure(chosen, lambda line: bar.update(task, description=line))
    show(report, as_json)
