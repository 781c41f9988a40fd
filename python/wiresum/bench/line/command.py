"""`wiresum bench line`."""

from dataclasses import dataclass
from typing import Annotated

import typer

from wiresum.bench.command import (
    ENGINES,
    Output,
    RunsOption,
    command,
    counts,
    measuring,
    parse_counts,
    parse_sizes,
    show,
    some_of,
)
from wiresum.commandline import options
from wiresum.commandline.groups import Reading, read, text
from wiresum.commandline.quantities import parse_rate
from wiresum.plan.choices import DEFAULT_MTU_BYTES, DEFAULT_WINDOW, Engine, Transport

TRANSPORTS: tuple[Transport, ...] = ("udp", "af_xdp")


def _node_threads(given: str | None) -> tuple[int, ...]:
    return parse_counts(given, "--node-threads", least=1) if given else ()


@dataclass(frozen=True)
class Options:
    """What to measure.

    Attributes:
        rate_bps: bit/s of each link; None: links do not limit.
        core_share: of a processor, for each engine thread; None: what the machine gives.
        node_threads: of the server, one case for each; none: what it chooses.
        warmups: all-reduces of each kind before those that are measured.
    """

    workers: Annotated[tuple[int, ...], typer.Option("--workers", "-n", help="Numbers of hosts, comma-separated")] = (
        counts("2,4", "--workers", least=2)
    )
    sizes: Annotated[tuple[int, ...], typer.Option("--sizes", help="Sizes of the float32 tensor, comma-separated")] = (
        text("1MB,25MB,100MB", parse_sizes)
    )
    engines: Annotated[tuple[Engine, ...], typer.Option("--engines", help="What sums, comma-separated: xdp, udp")] = (
        some_of(ENGINES, "--engines")
    )
    transports: Annotated[
        tuple[Transport, ...], typer.Option("--transports", help="What workers' packets travel by: udp, af_xdp")
    ] = some_of(TRANSPORTS, "--transports")
    rate_bps: Annotated[float | None, typer.Option("--rate", help="Rate of each link, or none")] = text(
        "none", parse_rate
    )
    threads: Annotated[
        tuple[int, ...], typer.Option("--threads", help="Engine threads of each worker, comma-separated")
    ] = counts("1", "--threads", least=1)
    core_share: Annotated[
        float | None,
        typer.Option(
            "--core-share",
            min=0.05,
            max=1.0,
            help="Give each engine thread this share of a processor, as if it had a slower core to itself",
        ),
    ] = None
    node_threads: Annotated[
        tuple[int, ...],
        typer.Option(
            "--node-threads", help="Threads of the server in user space, comma-separated [default: as it chooses]"
        ),
    ] = read((), Reading(str | None, None, _node_threads))
    node_core_share: Annotated[
        float | None,
        typer.Option("--node-core-share", min=0.05, max=1.0, help="The same for each thread of the server"),
    ] = None
    repeats: RunsOption = 7
    warmups: int = 2
    lanes: options.LanesOption = "int32-le"
    window: options.WindowOption = DEFAULT_WINDOW
    mtu_bytes: Annotated[int, options.MTU] = DEFAULT_MTU_BYTES
    jumbo: options.JumboOption = False
    profile: Annotated[
        str | None,
        typer.Option("--profile", help="File for what packets cost this machine, for `wiresum predict --hosts`"),
    ] = None


@command(
    "All-reduces and trainings",
    "--workers 2,4 --sizes 25MB,100MB --engines xdp",
    {
        "line": "--workers 2,4 --sizes 1MB,25MB,100MB",
        "line-int16": "--workers 2 --sizes 100MB --lanes int16-le",
        "line-node-threads": "--workers 2 --sizes 100MB --engines udp --transports udp --threads 2 --node-threads 1,2",
        "line-threads": "--workers 2 --sizes 100MB --engines xdp --transports udp --threads 1,2 --core-share 0.25",
    },
    quick="--workers 2 --sizes 1MB --engines udp --transports udp --runs 1",
)
def line(chosen: Options, *, output: Output) -> None:
    """Time all-reduces on links that do not limit, beside Gloo, with the processor time of each part."""
    from wiresum.bench.line import measure as benchmark

    with measuring("all-reduces without a limit by links", output) as status:
        report = benchmark.measure(chosen, status.say)
        if chosen.profile:
            from wiresum.bench.line.profile import measure_profile

            measure_profile(chosen, status.say).write(chosen.profile)
    show(report, output)
