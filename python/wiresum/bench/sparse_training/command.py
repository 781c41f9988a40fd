"""`wiresum bench sparse-training`."""

from dataclasses import dataclass
from typing import Annotated

import typer

from wiresum.bench.command import Output, command, limited, measuring, show, some_or_none, suitable_engine
from wiresum.commandline import options
from wiresum.commandline.groups import text
from wiresum.plan.choices import Engine

MODELS = ("dlrm", "skip-gram", "ncf", "fm")
RIVALS = ("push_pull", "gloo")


@dataclass(frozen=True)
class Options:
    """What to train, on which links.

    Attributes:
        engine: what sums dense gradients.
        mtu_bytes: of the links.
        loopback: never use namespaces (True), or whatever this process may (None).
    """

    models: Annotated[
        tuple[str, ...], typer.Option("--model", help=f"Models to train, separated by commas: {', '.join(MODELS)}")
    ] = some_or_none(MODELS, "--model")
    workers: Annotated[
        int, typer.Option("--workers", "-n", min=1, max=64, help="Number of hosts around a switch that sums")
    ] = 8
    rate_bps: Annotated[float, typer.Option("--rate", help="Rate of each link, each way: 100mbit, 20mbit")] = text(
        "100mbit", limited
    )
    servers: Annotated[int, typer.Option("--servers", min=1, help="Number of hosts that keep tables")] = 1
    steps: Annotated[int, typer.Option("--steps", min=3, help="Number of steps of each training")] = 20
    scale: Annotated[
        float, typer.Option("--scale", min=1e-4, max=1, help="Factor on the tables of dlrm, ncf and fm")
    ] = 0.1
    batch: Annotated[
        int | None, typer.Option("--batch", min=8, help="Samples of a worker in a step [default: the model's]")
    ] = None
    against: Annotated[
        tuple[str, ...],
        typer.Option(
            "--against", help="Rivals, separated by commas: push_pull (servers without sums), gloo (DDP, sparse=True)"
        ),
    ] = some_or_none(RIVALS, "--against")
    engine: Annotated[Engine, options.ENGINE] = suitable_engine()
    mtu_bytes: int = 1500
    loopback: bool | None = None


@command(
    "All-reduces and trainings",
    "--workers 8 --rate 100mbit --servers 1",
    {"sparse-training": "--workers 8 --rate 100mbit --servers 1"},
    quick="--model dlrm --workers 2 --steps 3 --scale 0.001 --batch 64",
)
def sparse_training(chosen: Options, *, output: Output) -> None:
    """Train sparse models on shaped links, beside servers without sums and Gloo's DDP: samples/s, equal losses."""
    from wiresum.bench.sparse_training import measure as benchmark

    with measuring("sparse-training", output) as status:
        report = benchmark.measure(chosen, status.say)
    show(report, output)
