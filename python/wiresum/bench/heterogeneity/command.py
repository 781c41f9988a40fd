"""`wiresum bench heterogeneity`."""

from typing import Annotated

import typer

from wiresum.bench.command import RunsOption, command, show
from wiresum.commandline import options
from wiresum.commandline.console import err, note
from wiresum.commandline.options import choose_engine
from wiresum.commandline.quantities import parse_rate, parse_size


@command(
    "All-reduces and trainings",
    "--late 2 --slow-rate 50mbit",
    {"heterogeneity": "--plot build/bench/heterogeneity.png"},
)
def heterogeneity(
    rate: Annotated[str, typer.Option("--rate", help="Rate of every link but that of W2")] = "100mbit",
    slow_rate: Annotated[str, typer.Option("--slow-rate", help="Rate of the link of W2")] = "50mbit",
    late: Annotated[float, typer.Option("--late", min=0, help="Seconds by which W3 is late")] = 2.0,
    size: Annotated[str, typer.Option("--size", help="Size of the float32 gradient")] = "12.5MB",
    both_ways: Annotated[
        bool, typer.Option("--both-ways", help="Limit the way down too; the paper counts the way up")
    ] = False,
    method: Annotated[
        list[str] | None, typer.Option("--method", help="Method to run; repeatable [default: all]")
    ] = None,
    engine: options.EngineOption = "auto",
    codec: options.CodecOption = "fixed:1e8",
    plot: options.PlotOption = None,
    runs: RunsOption = 3,
    as_json: options.JsonOption = False,
) -> None:
    """Sum with a slow link and a late worker, by method (XAgg, Fig. 1, at 1:100 by default)."""
    from wiresum.bench.heterogeneity import measure as benchmark

    rates = [parse_rate(rate), parse_rate(slow_rate)]
    if None in rates:
        raise typer.BadParameter("the bounds need rates; give some, as 100mbit", param_hint="--rate")
    chosen = benchmark.Options(
        rate_bps=rates[0] or 0,
        slow_rate_bps=rates[1] or 0,
        late_s=late,
        size_bytes=parse_size(size),
        both_ways=both_ways,
        methods=tuple(method or ()),
        repeats=runs,
        engine=choose_engine(engine, loopback=False),
        codec=codec,
        rates=plot is not None,
    )
    with err().status("") as status:
        report = benchmark.measure(chosen, lambda title: status.update(f"{title}, {runs} times"))
    if plot:
        from wiresum.bench.heterogeneity.plot import draw

        draw(report, plot)
        note(f"{plot}: rates over time, predicted and measured")
    show(report, as_json)
