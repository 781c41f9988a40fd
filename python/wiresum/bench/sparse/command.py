"""`wiresum bench sparse`."""

from dataclasses import dataclass
from typing import Annotated

import typer

from wiresum.bench.command import Output, command, limited, measuring, show, some_or_none, suitable_engine
from wiresum.commandline import options
from wiresum.commandline.groups import text
from wiresum.plan.choices import Engine

RIVALS = ("push_pull", "zebra", "pool")
HOT_ROWS = 30_000
"""Zebra's hot set for its two large models."""


@dataclass(frozen=True)
class Options:
    """What to measure, on which links.

    Attributes:
        engine: what sums dense tensors, for the rival `pool`.
        hot_rows: that the switch sums in Zebra's flow.
        replicas: most rows that a worker keeps; unlimited where absent.
        loss: share of the packets that each link loses on purpose, each way.
    """

    trace: Annotated[
        str, typer.Option("--trace", help="Trace that the workers replay, as `wiresum sparse trace` takes it")
    ] = "criteo:scale=0.1,batch=512"
    workers: Annotated[
        int, typer.Option("--workers", "-n", min=1, max=64, help="Number of hosts around a switch that sums")
    ] = 8
    rate_bps: Annotated[float, typer.Option("--rate", help="Rate of each link, each way: 100mbit, 20mbit")] = text(
        "100mbit", limited
    )
    servers: Annotated[int, typer.Option("--servers", min=1, help="Number of hosts that keep tables")] = 1
    beside: Annotated[
        bool, typer.Option("--beside", help="Keep a shard of the tables beside every worker, not at --servers")
    ] = False
    against: Annotated[
        tuple[str, ...],
        typer.Option(
            "--against",
            help="Rivals, separated by commas: push_pull (no sums; keys of 8 bytes, TCP), "
            f"zebra ({HOT_ROWS:,} rows summed), pool (whole tables as a dense tensor)",
        ),
    ] = some_or_none(RIVALS, "--against", ("push_pull",))
    rounds: Annotated[int, typer.Option("--rounds", min=1, help="Number of measured rounds of each method")] = 8
    engine: Annotated[Engine, options.ENGINE] = suitable_engine()
    rows_engine: options.RowsEngineOption = "udp"
    hot_rows: int = HOT_ROWS
    replicas: int | None = None
    loss: float = 0.0


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
def sparse(chosen: Options, *, output: Output) -> None:
    """Time rounds of a sparse model by native workers on shaped links, beside the plan's prediction and rivals."""
    from wiresum.bench.sparse import measure as benchmark

    where = "a shard beside each" if chosen.beside else f"{chosen.servers} servers"
    links = f"{chosen.workers} workers and {where} at {chosen.rate_bps / 1e6:g} Mbit/s"
    with measuring(f"{links}: {chosen.trace}", output):
        report = benchmark.measure(chosen)
    show(report, output)
