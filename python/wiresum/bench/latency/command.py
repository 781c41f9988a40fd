"""`wiresum bench latency`."""

from dataclasses import dataclass
from typing import Annotated

import typer

from wiresum.bench.command import (
    Output,
    RunsOption,
    command,
    counts,
    measuring,
    parse_sizes,
    show,
    suitable_engine,
)
from wiresum.commandline import options
from wiresum.commandline.groups import repeated, text
from wiresum.plan.choices import FLOAT32_BYTES, Engine
from wiresum.torch.settings import DEFAULT_MIN_ELEMENTS

USUAL = ("barrier", "all_reduce")
OTHERS = ("broadcast", "reduce", "reduce_scatter", "all_gather", "gather", "scatter")
COLLECTIVES = (*USUAL, *OTHERS)
"""What can be timed. Sizes of an all-gather and a gather are those of a rank's share, of all others those of the whole
tensor."""
DEFAULT_SIZES = "4B,64B,256B,1020B,1KiB,2KiB"
"""One element to 512: 1020 B is the largest tensor that goes to Gloo by default, 1 KiB the smallest that does not."""


def parse_floats(given: str) -> tuple[int, ...]:
    """Bytes of float32 tensors from `4B,2KiB`.

    Raises:
        typer.BadParameter: one is no size, or no whole number of elements.
    """
    sizes = parse_sizes(given)
    if any(size % FLOAT32_BYTES for size in sizes):
        raise typer.BadParameter(
            f"{given} has a size that is no whole number of float32; give multiples of 4 bytes, as 4B,2KiB",
            param_hint="--sizes",
        )
    return sizes


def parse_collectives(given: str) -> tuple[str, ...]:
    """Names from `barrier,all_reduce`.

    Raises:
        typer.BadParameter: one is none.
    """
    names = tuple(name.strip() for name in given.split(","))
    unknown = [name for name in names if name not in COLLECTIVES]
    if unknown:
        raise typer.BadParameter(f"{unknown[0]} is none of {', '.join(COLLECTIVES)}", param_hint="--collectives")
    return names


@dataclass(frozen=True)
class Options:
    """What to measure.

    Attributes:
        min_elements: what every rank has as WIRESUM_MIN_ELEMENTS.
        warmups: turns of all collectives before those that are measured.
    """

    workers: Annotated[tuple[int, ...], typer.Option("--workers", "-n", help="Numbers of hosts, comma-separated")] = (
        counts("4,8", "--workers", least=2)
    )
    collectives: Annotated[
        tuple[str, ...], typer.Option("--collectives", help=f"What to time, comma-separated: {', '.join(COLLECTIVES)}")
    ] = text(",".join(USUAL), parse_collectives)
    sizes: Annotated[
        tuple[int, ...], typer.Option("--sizes", help="Sizes of a rank's float32 tensor, comma-separated")
    ] = text(DEFAULT_SIZES, parse_floats)
    calls: Annotated[
        int, typer.Option("--calls", min=1, help="Number of collectives in a run, one after the other")
    ] = 200
    min_elements: Annotated[
        int, typer.Option("--min-elements", min=1, help="Elements below which a sum goes through Gloo")
    ] = DEFAULT_MIN_ELEMENTS
    against: Annotated[tuple[str, ...], typer.Option("--against", help="Rival, a backend; repeatable")] = repeated(
        "gloo"
    )
    repeats: RunsOption = 7
    warmups: int = 1
    engine: Annotated[Engine, options.ENGINE] = suitable_engine()


@command(
    "All-reduces and trainings",
    "--workers 4 --sizes 4B,2KiB --min-elements 1",
    {
        "latency": "",
        "latency-network": "--min-elements 1",
        "latency-kinds": f"--collectives {','.join(OTHERS)} --sizes 64B,1KiB,4KiB",
    },
    quick="--workers 2 --sizes 4B,2KiB --calls 20 --runs 1",
)
def latency(chosen: Options, *, output: Output) -> None:
    """Time barriers and other small collectives on links without a rate, beside Gloo, and say who did them."""
    from wiresum.bench.latency import measure as benchmark

    with measuring("small collectives", output) as status:
        report = benchmark.measure(chosen, status.say)
    show(report, output)
