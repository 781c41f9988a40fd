"""`wiresum bench allreduce`."""

from typing import Annotated

import typer

from wiresum.bench.command import RunsOption, command, limited, show
from wiresum.commandline import options
from wiresum.commandline.console import err
from wiresum.commandline.options import choose_engine
from wiresum.commandline.quantities import parse_size
from wiresum.plan.choices import DEFAULT_MTU_BYTES, DEFAULT_WINDOW


@command(
    "All-reduces and trainings",
    "--workers 4 --rate 500mbit --size 25MB --against gloo",
    {
        "allreduce-4": "--workers 4 --rate 500mbit --size 25MB --against gloo",
        "allreduce-8": "--workers 8 --rate 250mbit --size 25MB --against gloo",
        "allreduce-4-int16": "--workers 4 --rate 500mbit --size 25MB --lanes int16-le --against gloo",
        "allreduce-4-cache": "--workers 4 --rate 500mbit --size 25MB --policy cache --against gloo",
        "allreduce-4-udp": "--workers 4 --rate 500mbit --size 25MB --engine udp --against gloo",
    },
)
def allreduce(
    workers: Annotated[
        int, typer.Option("--workers", "-n", min=1, help="Number of hosts around a switch that sums")
    ] = 4,
    rate: Annotated[str, typer.Option("--rate", help="Rate of each link, each way: 500mbit, 1gbit")] = "500mbit",
    size: Annotated[str, typer.Option("--size", help="Size of the float32 tensor: 25MB, 64KiB")] = "25MB",
    against: Annotated[
        list[str] | None, typer.Option("--against", help="Rival: a backend, or ps, sharded_ps; repeatable")
    ] = None,
    lanes: options.LanesOption = "int32-le",
    policy: options.PolicyOption = "pool",
    engine: options.EngineOption = "auto",
    window: options.WindowOption = DEFAULT_WINDOW,
    mtu: options.MtuOption = DEFAULT_MTU_BYTES,
    runs: RunsOption = 7,
    as_json: options.JsonOption = False,
) -> None:
    """Time all-reduces through torch.distributed on shaped links, conversion included."""
    from wiresum.bench.allreduce import measure as benchmark

    chosen = benchmark.Options(
        workers=workers,
        rate_bps=limited(rate),
        size_bytes=parse_size(size),
        against=tuple(against or ["gloo"]),
        repeats=runs,
        lanes=lanes,
        policy=policy,
        engine=choose_engine(engine, loopback=False),
        window=window,
        mtu_bytes=mtu,
    )
    with err().status(f"{workers} workers at {rate}: {size} through wiresum and {', '.join(chosen.against)}"):
        report = benchmark.measure(chosen)
    show(report, as_json)
