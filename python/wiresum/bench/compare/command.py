"""`wiresum bench compare`."""

from typing import Annotated

import typer

from wiresum.bench.command import RunsOption, command, parse_models
from wiresum.commandline import options
from wiresum.commandline.console import note, out, print_json
from wiresum.commandline.options import choose_engine
from wiresum.commandline.quantities import parse_starts


@command(
    "All-reduces and trainings",
    "--method xagg --method gloo --start W3=0.2 --plot compare.png",
    {"compare": "", "compare-late": "--start W3=0.2"},
)
def compare(
    method: Annotated[
        list[str] | None, typer.Option("--method", "-m", help="Method to time; repeatable [default: all]")
    ] = None,
    model: Annotated[
        list[str] | None, typer.Option("--model", help="Model as NAME=SIZE; repeatable [default: the paper's five]")
    ] = None,
    scale: Annotated[float, typer.Option("--scale", help="Factor on the paper's rates")] = 0.002,
    model_scale: Annotated[float, typer.Option("--model-scale", help="Factor on the models' sizes")] = 0.01,
    start: Annotated[
        list[str] | None, typer.Option("--start", help="WORKER=SECONDS until it has its gradient; repeatable")
    ] = None,
    engine: options.EngineOption = "auto",
    plot: options.PlotOption = None,
    runs: RunsOption = 3,
    as_json: options.JsonOption = False,
) -> None:
    """Time methods beside each other on XAgg's test bed (Fig. 12 and 13), turn by turn, with each one's bound."""
    from wiresum.bench.compare import measure as benchmark
    from wiresum.bench.compare.methods import METHODS

    chosen = benchmark.Options(
        methods=tuple(method or METHODS),
        models=parse_models(model or []) or benchmark.MODELS,
        scale=scale,
        model_scale=model_scale,
        starts=parse_starts(start or []),
        repeats=runs,
        engine=choose_engine(engine, loopback=False),
    )
    report = benchmark.measure(chosen, note)
    if plot:
        benchmark.draw(report, plot)
        note(f"{plot}: times by model")
    if as_json:
        print_json(report.to_json())
    else:
        out().print(benchmark.table(report))
