"""`wiresum bench security`."""

from dataclasses import dataclass
from typing import Annotated

import typer

from wiresum.bench.command import ENGINES, Output, RunsOption, command, measuring, show, some_of
from wiresum.commandline.groups import text
from wiresum.commandline.quantities import parse_rate, parse_size
from wiresum.errors import SettingError
from wiresum.plan.choices import Engine


@dataclass(frozen=True)
class Options:
    """What to measure."""

    engines: Annotated[
        tuple[Engine, ...], typer.Option("--engines", help="Engines to compare, comma-separated: xdp,udp")
    ] = some_of((*ENGINES, "tcp"), "--engines")
    rate_bps: Annotated[float | None, typer.Option("--rate", help="Rate of each link: 500mbit, none")] = text(
        "500mbit", parse_rate
    )
    workers: Annotated[int, typer.Option("--workers", min=1, max=64, help="Workers that join at once")] = 64
    seconds: Annotated[float, typer.Option("--seconds", min=0.1, help="Seconds of each run beside a flood")] = 1.0
    sealed: Annotated[
        bool, typer.Option("--sealed", help="Measure sealed sums of 4 workers beside open ones, and nothing else")
    ] = False
    proven: Annotated[
        bool, typer.Option("--proven", help="Measure what proofs of values cost a packet in XDP, and nothing else")
    ] = False
    switched: Annotated[
        bool, typer.Option("--switched", help="Measure joins, floods and sealed sums at switches, and nothing else")
    ] = False
    size_bytes: Annotated[int, typer.Option("--size", help="Size of each sum, with --sealed and --switched: 25MB")] = (
        text("25MB", parse_size)
    )
    runs: RunsOption = 3


@command(
    "Running aggregators",
    "--engines xdp --workers 64",
    {
        "security": "--runs 3",
        "security-sealed": "--sealed --engines xdp,udp,tcp --runs 9",
        "security-proven": "--proven --runs 9",
        "security-switched": "--switched --engines xdp,udp --runs 3",
    },
    quick="--engines udp --workers 8 --seconds 0.2 --runs 1",
)
def security(chosen: Options, *, output: Output) -> None:
    """Measure joins with proofs of keys, a job beside floods of strangers, and what seals and proofs cost."""
    from wiresum.bench.security import measure, proven, sealed, switched

    own = {"sealed": sealed.measure, "proven": proven.measure, "switched": switched.measure}
    asked = [benchmark for name, benchmark in own.items() if getattr(chosen, name)]
    if len(asked) > 1:
        raise SettingError("--sealed, --proven and --switched are benchmarks of their own: give one of them")
    benchmark = asked[0] if asked else measure.measure
    with measuring("hosts around a server", output) as status:
        report = benchmark(chosen, status.say)
    show(report, output)
