"""`wiresum bench sparse-allreduce`."""

from dataclasses import dataclass
from typing import Annotated

import typer

from wiresum.bench.command import Output, RunsOption, command, limited, measuring, show, some_of, suitable_engine
from wiresum.commandline import options
from wiresum.commandline.groups import text
from wiresum.plan.choices import DEFAULT_MTU_BYTES, Engine

RIVALS = ("gloo", "balanced")


@dataclass(frozen=True)
class Options:
    """What to measure, on which links.

    Attributes:
        warmups: all-reduces of each method before those that are measured.
    """

    trace: Annotated[
        str, typer.Option("--trace", help="Trace whose first round is pushed, as `wiresum sparse trace` takes it")
    ] = "criteo:scale=0.1,batch=512"
    workers: Annotated[
        int, typer.Option("--workers", "-n", min=1, help="Number of hosts around a switch that sums")
    ] = 8
    rate_bps: Annotated[float, typer.Option("--rate", help="Rate of each link, each way: 250mbit, 20mbit")] = text(
        "250mbit", limited
    )
    against: Annotated[
        tuple[str, ...],
        typer.Option("--against", help="Rivals, separated by commas: gloo (gathers rows), balanced (hashed to ranks)"),
    ] = some_of(RIVALS, "--against")
    repeats: RunsOption = 7
    warmups: int = 2
    engine: Annotated[Engine, options.ENGINE] = suitable_engine()
    mtu_bytes: Annotated[int, options.MTU] = DEFAULT_MTU_BYTES


@command(
    "All-reduces and trainings",
    "--workers 8 --rate 250mbit --against gloo,balanced",
    {
        "sparse-allreduce-4": "--workers 4 --rate 500mbit --against gloo,balanced",
        "sparse-allreduce-8": "--workers 8 --rate 250mbit --against gloo,balanced",
        "sparse-allreduce-32": "--workers 32 --rate 20mbit --against gloo,balanced",
    },
    quick="--trace criteo:scale=0.001,batch=64 --workers 2 --runs 1",
)
def sparse_allreduce(chosen: Options, *, output: Output) -> None:
    """Time all-reduces of sparse tensors through torch.distributed on shaped links, beside each method's limit."""
    from wiresum.bench.sparse_allreduce import measure as benchmark

    links = f"{chosen.workers} workers at {chosen.rate_bps / 1e6:g} Mbit/s"
    with measuring(f"{links}: {chosen.trace} through wiresum and {', '.join(chosen.against)}", output):
        report = benchmark.measure(chosen)
    show(report, output)
