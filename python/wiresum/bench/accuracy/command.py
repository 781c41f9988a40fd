"""`wiresum bench accuracy`."""

from dataclasses import dataclass
from typing import Annotated

import typer

from wiresum.bench.command import Output, command, counts, measuring, show, some_of
from wiresum.commandline import options
from wiresum.commandline.console import out
from wiresum.commandline.groups import text
from wiresum.commandline.quantities import parse_size
from wiresum.plan.choices import DEFAULT_MTU_BYTES, MAX_NARROW_WORKERS

DATA = ("gaussian", "scales", "gradients")
"""Kinds of tensors; `wiresum.bench.accuracy.data` makes them."""


@dataclass(frozen=True)
class Options:
    """What to sum.

    Attributes:
        size_bytes: of a rank's tensor in bfloat16; gradients have the size of their model.
        mtu_bytes: sets how many values share an exponent.
    """

    ranks: Annotated[tuple[int, ...], typer.Option("--ranks", help="Numbers of ranks, comma-separated")] = counts(
        "4,8,16,32,64", "--ranks", least=2, most=MAX_NARROW_WORKERS
    )
    data: Annotated[
        tuple[str, ...], typer.Option("--data", help=f"Kinds of tensors, comma-separated: {', '.join(DATA)}")
    ] = some_of(DATA, "--data")
    size_bytes: Annotated[int, typer.Option("--size", help="Size of a rank's tensor in bfloat16: 256KiB, 1MB")] = text(
        "256KiB", parse_size
    )
    seeds: Annotated[int, typer.Option("--seeds", min=1, help="Number of seeds, each with tensors of its own")] = 7
    mtu_bytes: Annotated[int, options.MTU] = DEFAULT_MTU_BYTES


@command(
    "Packets, on one core",
    "--ranks 4,32 --data gradients",
    {"accuracy": "", "accuracy-mtu1500": "--mtu 1500"},
    quick="--ranks 4,8 --size 16KiB --seeds 1",
)
def accuracy(chosen: Options, *, output: Output) -> None:
    """Sum bfloat16 tensors by 16-bit lanes, and by rings in bfloat16 and float32: RMS errors against float64."""
    from wiresum.bench.accuracy import measure as benchmark
    from wiresum.bench.accuracy.table import render

    with measuring(f"errors of sums: {', '.join(chosen.data)}", output) as status:
        report = benchmark.measure(chosen, status.say)
    show(report, output, lambda made: out().print(render(made)))
