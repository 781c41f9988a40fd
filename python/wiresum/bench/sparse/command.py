"""`wiresum bench sparse`."""

from typing import Annotated

import typer

from wiresum.bench.command import Output, command, limited, measuring, one_of, show
from wiresum.commandline import options

RIVALS = ("push_pull", "zebra", "pool")


@command(
    "All-reduces and trainings",
    "--workers 8 --rate 100mbit --servers 1",
    {
        "sparse-8": "--workers 8 --rate 100mbit --servers 1",
        "sparse-32": "--workers 32 --rate 20mbit --servers 1",
        "sparse-32-4": "--workers 32 --rate 20mbit --servers 4",
        "sparse-8-beside": "--workers 8 --rate 20mbit --beside",
    },
    quick="--trace criteo:scale=0.001,batch=64 --workers 2 --rounds 1",
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
    beside: Annotated[
        bool, typer.Option("--beside", help="Keep a shard of the tables beside every worker, not at --servers")
    ] = False,
    against: Annotated[
        str,
        typer.Option(
            "--against",
            help="Rivals, separated by commas: push_pull (no sums; keys of 8 bytes, TCP), zebra (30,000 rows summed), "
            "pool (whole tables as a dense tensor)",
        ),
    ] = "push_pull",
    rounds: Annotated[int, typer.Option("--rounds", min=1, help="Number of measured rounds of each method")] = 8,
    engine: options.EngineOption = "auto",
    rows_engine: options.RowsEngineOption = "udp",
    *,
    output: Output,
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
        engine=options.choose_engine(engine, loopback=False),
        rows_engine=rows_engine,
        beside=beside,
    )
    where = "a shard beside each" if beside else f"{servers} servers"
    with measuring(f"{workers} workers and {where} at {rate}: {trace}", output):
        report = benchmark.measure(chosen)
    show(report, output)
