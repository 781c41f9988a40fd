"""`wiresum bench async`."""

from dataclasses import dataclass
from typing import Annotated

import typer

from wiresum.bench.command import Output, command, limited, measuring, show, suitable_engine
from wiresum.commandline import options
from wiresum.commandline.console import note
from wiresum.commandline.groups import repeated, text
from wiresum.plan.choices import Engine


@dataclass(frozen=True)
class Options:
    """What to train, and how late.

    Attributes:
        batch_size: images per worker and gradient.
        learning_rate: of plain SGD.
        search_every: rounds between two choices of K.
    """

    workers: Annotated[
        int, typer.Option("--workers", "-n", min=2, max=64, help="Number of hosts around a switch that sums")
    ] = 8
    rate_bps: Annotated[float, typer.Option("--rate", help="Rate of each link, each way")] = text("100mbit", limited)
    rounds: Annotated[int, typer.Option("--rounds", min=1, help="Number of rounds of each training")] = 100
    batch_size: int = 32
    learning_rate: float = 0.2
    delay_s: Annotated[
        float, typer.Option("--delay", min=0, help="Seconds of the longest delay; the mean delay is half of it")
    ] = 0.6
    deviation: Annotated[
        float, typer.Option("--deviation", min=0, help="Standard deviation of the delays, in units of --delay")
    ] = 0.2
    target: Annotated[
        float, typer.Option("--target", min=0.02, help="Mean square of the gradient to reach, in gradient variances")
    ] = 1.0
    search_every: int = 5
    methods: Annotated[tuple[str, ...], typer.Option("--method", help="Method to run; repeatable [default: all]")] = (
        repeated()
    )
    engine: Annotated[Engine, options.ENGINE] = suitable_engine()
    seeds: Annotated[int, typer.Option("--seeds", min=1, help="Number of trainings of each method")] = 1


@command("All-reduces and trainings", "--plot async.png", quick="--workers 3 --rounds 10 --delay 0.05")
def asynchronous(chosen: Options, plot: options.PlotOption = None, *, output: Output) -> None:
    """Train while workers are late at random: GOAT-Async beside K-SGD and rounds of everyone (GOAT, Exp. 4 and 5)."""
    from wiresum.bench.participation import measure as benchmark

    with measuring("participation", output) as status:
        report = benchmark.measure(chosen, lambda title: status.say(f"{title}: {chosen.rounds} rounds"))
    if plot:
        from wiresum.bench.participation.plot import draw

        draw(report, plot)
        note(f"{plot}: accuracy over time, and speed")
    show(report, output)
