"""`wiresum bench sparse-allreduce`."""

from typing import Annotated

import typer

from wiresum.bench.command import RunsOption, command, limited, one_of, show
from wiresum.commandline import options
from wiresum.commandline.console import err
from wiresum.commandline.options import choose_engine
from wiresum.plan.choices import DEFAULT_MTU_BYTES


@command(
    "All-reduces and trainings",
    "--workers 8 --rate 250mbit --against gloo,balanced",
    {
        "sparse-allreduce-4": "--workers 4 --rate 500mbit --against gloo,balanced",
        "sparse-allreduce-8": "--workers 8 --rate 250mbit --against gloo,balanced",
        "sparse-allreduce-32": "--workers 32 --rate 20mbit --against gloo,balanced",
    },
)
def sparse_allreduce(
    trace: Annotated[
        str, typer.Option("--trace", help="Trace whose first round is pushed, as `wiresum sparse trace` takes it")
    ] = "criteo:scale=0.1,batch=512",
    workers: Annotated[
        int, typer.Option("--workers", "-n", min=1, help="Number of hosts around a switch that sums")
    ] = 8,
    rate: Annotated[str, typer.Option("--rate", help="Rate of each link, each way: 250mbit, 20mbit")] = "250mbit",
    against: Annotated[
        str,
        typer.Option("--against", help="Rivals, separated by commas: gloo (gathers rows), balanced (hashed to ranks)"),
    ] = "gloo,balanced",
    engine: options.EngineOption = "auto",
    mtu: options.MtuOption = DEFAULT_MTU_BYTES,
    runs: RunsOption = 7,
    as_json: options.JsonOption = False,
) -> None:
    """Time all-reduces of sparse tensors through torch.distributed on shaped links, beside each method's limit."""
    from wiresum.bench.sparse_allreduce import measure as benchmark
    from wiresum.bench.sparse_allreduce.worker import RIVALS

    chosen = benchmark.Options(
        trace=trace,
        workers=workers,
        rate_bps=limited(rate),
        against=tuple(one_of(name, RIVALS, "--against") for name in against.split(",") if name),
        repeats=runs,
        engine=choose_engine(engine, loopback=False),
        mtu_bytes=mtu,
    )
    with err().status(f"{workers} workers at {rate}: {trace} through wiresum and {against}"):
        report = benchmark.measure(chosen)
    show(report, as_json)
