"""`wiresum bench compression`."""

from dataclasses import dataclass
from typing import Annotated

import typer

from wiresum.bench.command import Output, RunsOption, command, limited, measuring, show, suitable_engine
from wiresum.commandline import options
from wiresum.commandline.groups import text
from wiresum.plan.choices import Engine


@dataclass(frozen=True)
class Options:
    """What to train, on which links."""

    workers: Annotated[int, typer.Option("-n", "--workers", min=2, max=16, help="Number of hosts")] = 4
    rate_bps: Annotated[float, typer.Option("--rate", help="Rate of each link, each way")] = text("250mbit", limited)
    epochs: Annotated[int, typer.Option("--epochs", min=1, help="Passes over the data")] = 5
    max_steps: Annotated[
        int | None, typer.Option("--max-steps", min=2, help="Steps after which to stop; all epochs if absent")
    ] = None
    engine: Annotated[Engine, options.ENGINE] = suitable_engine()
    repeats: RunsOption = 3


@command(
    "All-reduces and trainings",
    "--workers 4 --rate 100mbit --runs 1",
    {"compression": "--runs 3"},
    quick="--workers 2 --max-steps 3 --runs 1",
)
def compression(chosen: Options, *, output: Output) -> None:
    """Train with gradients of 32, 16 and 8 bits a value, beside Gloo: accuracy, speed and bytes of each."""
    from wiresum.bench.compression import measure as benchmark

    with measuring("short gradients", output) as status:
        report = benchmark.measure(chosen, status.say)
    show(report, output)
