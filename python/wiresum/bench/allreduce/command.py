"""`wiresum bench allreduce`."""

from dataclasses import dataclass
from typing import Annotated

import typer

from wiresum.bench.command import Output, RunsOption, command, limited, measuring, show, suitable_engine
from wiresum.commandline import options
from wiresum.commandline.groups import repeated, text
from wiresum.commandline.quantities import parse_size
from wiresum.plan.choices import DEFAULT_MTU_BYTES, DEFAULT_WINDOW, Engine


@dataclass(frozen=True)
class Options:
    """What to measure, on which links.

    Attributes:
        warmups: all-reduces of each backend before those that are measured.
    """

    workers: Annotated[
        int, typer.Option("--workers", "-n", min=1, help="Number of hosts around a switch that sums")
    ] = 4
    rate_bps: Annotated[float, typer.Option("--rate", help="Rate of each link, each way: 500mbit, 1gbit")] = text(
        "500mbit", limited
    )
    size_bytes: Annotated[int, typer.Option("--size", help="Size of the float32 tensor: 25MB, 64KiB")] = text(
        "25MB", parse_size
    )
    against: Annotated[
        tuple[str, ...], typer.Option("--against", help="Rival: a backend, or ps, sharded_ps; repeatable")
    ] = repeated("gloo")
    repeats: RunsOption = 7
    warmups: int = 2
    lanes: options.LanesOption = "int32-le"
    policy: options.PolicyOption = "pool"
    engine: Annotated[Engine, options.ENGINE] = suitable_engine()
    window: options.WindowOption = DEFAULT_WINDOW
    mtu_bytes: Annotated[int, options.MTU] = DEFAULT_MTU_BYTES
    jumbo: options.JumboOption = False
    threads: options.ThreadsOption = 1
    node_threads: options.NodeThreadsOption = None


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
    quick="--workers 2 --size 1MB --runs 1",
)
def allreduce(chosen: Options, *, output: Output) -> None:
    """Time all-reduces through torch.distributed on shaped links, conversion included."""
    from wiresum.bench.allreduce import measure as benchmark

    links = f"{chosen.workers} workers at {chosen.rate_bps / 1e6:g} Mbit/s"
    with measuring(f"{links}: {chosen.size_bytes / 1e6:g} MB through wiresum and {', '.join(chosen.against)}", output):
        report = benchmark.measure(chosen)
    show(report, output)
