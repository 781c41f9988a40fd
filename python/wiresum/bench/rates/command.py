"""`wiresum bench rates`."""

from typing import Annotated

import typer

from wiresum.bench.command import command, show
from wiresum.commandline import options
from wiresum.commandline.console import err, note
from wiresum.commandline.options import choose_engine
from wiresum.commandline.quantities import parse_rate


@command("Running aggregators", "--rounds 100 --plot rates.png", {"rates": "--plot build/bench/rates.png"})
def rates(
    engine: options.EngineOption = "auto",
    rounds: Annotated[int, typer.Option("--rounds", min=1, help="Number of negotiations that are timed")] = 50,
    rate: Annotated[str, typer.Option("--rate", help="Rate of every link at first")] = "600mbit",
    slow_rate: Annotated[str, typer.Option("--slow-rate", help="Rate to which the server's link drops")] = "200mbit",
    plot: options.PlotOption = None,
    as_json: options.JsonOption = False,
) -> None:
    """Measure how long rate negotiation takes, and how rates follow a slower link (XAgg, Fig. 21, at 1:100)."""
    from wiresum.bench.rates import measure as benchmark
    from wiresum.bench.rates.step import Step

    wide, narrow = parse_rate(rate), parse_rate(slow_rate)
    if wide is None or narrow is None:
        raise typer.BadParameter("links need rates; give some, as 600mbit", param_hint="--rate")
    step = Step(wide_bps=wide, narrow_bps=narrow)
    chosen = benchmark.Options(choose_engine(engine, loopback=False), rounds, step=step)
    with err().status("") as status:
        report = benchmark.measure(chosen, status.update)
    if plot:
        from wiresum.bench.rates.plot import draw

        draw(report, plot)
        note(f"{plot}: what workers send while the link slows down")
    show(report, as_json)
