"""`wiresum bench live`."""

from typing import Annotated

import typer

from wiresum.bench.command import RunsOption, command, limited, show
from wiresum.commandline import options
from wiresum.commandline.console import note
from wiresum.commandline.quantities import parse_size
from wiresum.plan.choices import SwitchEngine


@command("Planners, simulator, networks of switches", "--rate 100mbit --size 8MB --json")
def live(
    rate: Annotated[str, typer.Option("--rate", help="Rate of each link, each way: 100mbit")] = "100mbit",
    size: Annotated[str, typer.Option("--size", help="Size of the float32 tensor: 8MB")] = "8MB",
    engine: Annotated[SwitchEngine, typer.Option("--engine", help="What runs the switches")] = "udp",
    cases: Annotated[
        list[str] | None, typer.Option("--case", help="Name of a case to run; repeatable [default: all]")
    ] = None,
    runs: RunsOption = 5,
    as_json: options.JsonOption = False,
) -> None:
    """Run plans of switch planners in namespaces: bytes on each link and the rate, beside what they predict."""
    from wiresum.bench.live import measure as benchmark

    chosen = benchmark.Options(
        rate_bps=limited(rate), size_bytes=parse_size(size), repeats=runs, engine=engine, cases=tuple(cases or ())
    )
    show(benchmark.measure(chosen, note), as_json)
