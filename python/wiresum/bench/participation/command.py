"""`wiresum bench async`."""

from typing import Annotated

import typer

from wiresum.bench.command import command, limited, show
from wiresum.commandline import options
from wiresum.commandline.console import err, note
from wiresum.commandline.options import choose_engine


@command("All-reduces and trainings", "--plot async.png")
def asynchronous(
    workers: Annotated[
        int, typer.Option("--workers", "-n", min=2, max=64, help="Number of hosts around a switch that sums")
    ] = 8,
    rate: Annotated[str, typer.Option("--rate", help="Rate of each link, each way")] = "100mbit",
    rounds: Annotated[int, typer.Option("--rounds", min=1, help="Number of rounds of each training")] = 100,
    delay: Annotated[
        float, typer.Option("--delay", min=0, help="Seconds of the longest delay; the mean delay is half of it")
    ] = 0.6,
    deviation: Annotated[
        float, typer.Option("--deviation", min=0, help="Standard deviation of the delays, in units of --delay")
    ] = 0.2,
    target: Annotated[
        float, typer.Option("--target", min=0.02, help="Mean square of the gradient to reach, in gradient variances")
    ] = 1.0,
    method: Annotated[
        list[str] | None, typer.Option("--method", help="Method to run; repeatable [default: all]")
    ] = None,
    engine: options.EngineOption = "auto",
    seeds: Annotated[int, typer.Option("--seeds", min=1, help="Number of trainings of each method")] = 1,
    plot: options.PlotOption = None,
    as_json: options.JsonOption = False,
) -> None:
    """Train while workers are late at random: GOAT-Async beside K-SGD and rounds of everyone (GOAT, Exp. 4 and 5)."""
    from wiresum.bench.participation import measure as benchmark

    chosen = benchmark.Options(
        workers=workers,
        rate_bps=limited(rate),
        rounds=rounds,
        delay_s=delay,
        deviation=deviation,
        target=target,
        methods=tuple(method or ()),
        engine=choose_engine(engine, loopback=False),
        seeds=seeds,
    )
    with err().status("") as status:
        report = benchmark.measure(chosen, lambda title: status.update(f"{title}: {rounds} rounds"))
    if plot:
        from wiresum.bench.participation.plot import draw

        draw(report, plot)
        note(f"{plot}: accuracy over time, and speed")
    show(report, as_json)
