"""`wiresum bench sparse`."""

from typing import Annotated

import typer

from wiresum.bench.command import command, limited, one_of, show
from wiresum.commandline import options
from wiresum.commandline.console import err

RIVALS = ("push_pull", "zebra")


@command(
    "All-reduces and trainings",
    "--workers 8 --rate 100mbit --servers 1",
    {
        "sparse-8": "--workers 8 --rate 100mbit --servers 1",
        "sparse-32": "--workers 32 --rate 20mbit --servers 1",
        "sparse-32-4": "--workers 32 --rate 20mbit --servers 4",
    },
)
def sparse(
    trace: Annotated[
        str, typer.Option("--trace", help="Trace that the workers replay, as `wiresum sparse trace` takes it")
    ] = "criteo:scale=0.1,batch=512",
    workers: Annotated[
        int, typer.Option("--workers", "-n", min=1, max=64, help="Number of hosts around a switch that sums")
    ] = 8,
    rate: Annotated[str, typer.Option("--rate", help="Rate of each link, each way: 100mbit, 20mbit")] = "100mbit",
    servers: Annotated[int, typer.Option("--servers", min=1, help="Number of hosts that keep tables")] = 1,
    against: Annotated[
        str,
        typer.Option(
            "--against",
            help="Rivals, separated by commas: push_pull (no sums; keys of 8 bytes, TCP), zebra (30,000 rows summed)",
        ),
    ] = "push_pull",
    rounds: Annotated[int, typer.Option("--rounds", min=1, help="Number of measured rounds of each method")] = 8,
    as_json: options.JsonOption = False,
) -> None:
    """Time rounds of a sparse model by native workers on shaped links, beside the plan's prediction and rivals."""
    from wiresum.bench.sparse import measure as benchmark

    chosen = benchmark.Options(
        trace=trace,
        workers=workers,
        servers=servers,
        rate_bps=limited(rate),
        rounds=rounds,
        against=tuple(one_of(name, RIVALS, "--against") for name in against.split(",") if name),
    )
    with err().status(f"{workers} workers and {servers} servers at {rate}: {trace}"):
        report = benchmark.measure(chosen)
    show(report, as_json)
