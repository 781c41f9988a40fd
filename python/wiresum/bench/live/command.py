"""`wiresum bench live`."""

from dataclasses import dataclass
from typing import Annotated

import typer

from wiresum.bench.command import Output, RunsOption, command, limited, measuring, show
from wiresum.commandline.console import note
from wiresum.commandline.groups import repeated, text
from wiresum.commandline.quantities import parse_size
from wiresum.plan.choices import SwitchEngine


@dataclass(frozen=True)
class Options:
    """What to measure.

    Attributes:
        warmups: all-reduces before those that are measured.
        window: fragments that a worker has on the way.
    """

    rate_bps: Annotated[float, typer.Option("--rate", help="Rate of each link, each way: 100mbit")] = text(
        "100mbit", limited
    )
    size_bytes: Annotated[int, typer.Option("--size", help="Size of the float32 tensor: 8MB")] = text("8MB", parse_size)
    repeats: RunsOption = 5
    warmups: int = 1
    window: int = 64
    engine: Annotated[SwitchEngine, typer.Option("--engine", help="Engine of the switches")] = "udp"
    cases: Annotated[
        tuple[str, ...], typer.Option("--case", help="Name of a case to run; repeatable [default: all]")
    ] = repeated()


@command("Planners, simulator, networks of switches", "--rate 100mbit --size 8MB --json", quick="--size 1MB --runs 1")
def live(chosen: Options, *, output: Output) -> None:
    """Run plans of switch planners in namespaces: bytes on each link and the rate, beside what they predict."""
    from wiresum.bench.live import measure as benchmark

    with measuring("plans of switch planners in namespaces", output):
        report = benchmark.measure(chosen, note)
    show(report, output)
