"""`wiresum bench sparse-training`."""

from typing import Annotated

import typer

from wiresum.bench.command import Output, command, limited, measuring, one_of, show
from wiresum.commandline import options
from wiresum.commandline.options import choose_engine

MODELS = ("dlrm", "skip-gram", "ncf", "fm")
RIVALS = ("push_pull", "gloo")


@command(
    "All-reduces and trainings",
    "--workers 8 --rate 100mbit --servers 1",
    {"sparse-training": "--workers 8 --rate 100mbit --servers 1"},
    quick="--model dlrm --workers 2 --steps 3 --scale 0.001 --batch 64",
)
def sparse_training(
    model: Annotated[
        str, typer.Option("--model", help=f"Models to train, separated by commas: {', '.join(MODELS)}")
    ] = ",".join(MODELS),
    workers: Annotated[
        int, typer.Option("--workers", "-n", min=1, max=64, help="Number of hosts around a switch that sums")
    ] = 8,
    rate: Annotated[str, typer.Option("--rate", help="Rate of each link, each way: 100mbit, 20mbit")] = "100mbit",
    servers: Annotated[int, typer.Option("--servers", min=1, help="Number of hosts that keep tables")] = 1,
    steps: Annotated[int, typer.Option("--steps", min=3, help="Number of steps of each training")] = 20,
    scale: Annotated[
        float, typer.Option("--scale", min=1e-4, max=1, help="Factor on the tables of dlrm, ncf and fm")
    ] = 0.1,
    batch: Annotated[
        int | None, typer.Option("--batch", min=8, help="Samples of a worker in a step [default: the model's]")
    ] = None,
    against: Annotated[
        str,
        typer.Option(
            "--against", help="Rivals, separated by commas: push_pull (servers without sums), gloo (DDP, sparse=True)"
        ),
    ] = ",".join(RIVALS),
    engine: options.EngineOption = "auto",
    *,
    output: Output,
) -> None:
    """Train sparse models on shaped links, beside servers without sums and Gloo's DDP: samples/s, equal losses."""
    from wiresum.bench.sparse_training import measure as benchmark

    chosen = benchmark.Options(
        models=tuple(one_of(name, MODELS, "--model") for name in model.split(",") if name),
        workers=workers,
        servers=servers,
        rate_bps=limited(rate),
        steps=steps,
        scale=scale,
        batch=batch,
        against=tuple(one_of(name, RIVALS, "--against") for name in against.split(",") if name),
        engine=choose_engine(engine, loopback=False),
    )
    with measuring("sparse-training", output) as status:
        report = benchmark.measure(chosen, status.say)
    show(report, output)
