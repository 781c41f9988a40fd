"""`wiresum bench fsdp`."""

from dataclasses import dataclass
from typing import Annotated

import typer

from wiresum.bench.command import Output, RunsOption, command, limited, measuring, show, suitable_engine
from wiresum.commandline import options
from wiresum.commandline.groups import repeated, text
from wiresum.commandline.quantities import parse_size
from wiresum.plan.choices import Engine


@dataclass(frozen=True)
class Options:
    """What to train, on which links.

    Attributes:
        warmups: runs of each training before those that are measured; in the first `overlap` learns the order.
    """

    workers: Annotated[
        int, typer.Option("--workers", "-n", min=2, help="Number of hosts around a switch that sums")
    ] = 4
    rate_bps: Annotated[float, typer.Option("--rate", help="Rate of each link, each way: 500mbit, 1gbit")] = text(
        "500mbit", limited
    )
    mesh: Annotated[
        int | None, typer.Option("--mesh", help="Shards of the mesh: all workers, as smaller groups go through Gloo")
    ] = None
    size_bytes: Annotated[int, typer.Option("--size", help="Size of the float32 model: 25MB, 1MiB")] = text(
        "25MB", parse_size
    )
    blocks: Annotated[int, typer.Option("--blocks", min=2, help="Number of blocks, each sharded by itself")] = 8
    steps: Annotated[int, typer.Option("--steps", min=1, help="Number of steps in a run")] = 3
    overlap: Annotated[
        bool | None, typer.Option("--overlap/--no-overlap", help="One way only: with `overlap(model)`, or without")
    ] = None
    against: Annotated[tuple[str, ...], typer.Option("--against", help="Rival, a backend; repeatable")] = repeated(
        "gloo"
    )
    repeats: RunsOption = 7
    warmups: int = 1
    lanes: options.LanesOption = "auto"
    engine: Annotated[Engine, options.ENGINE] = suitable_engine()

    @property
    def ways(self) -> list[bool]:
        """Whether the model is overlapped, for each training."""
        return [False, True] if self.overlap is None else [self.overlap]


@command(
    "All-reduces and trainings",
    "--workers 4 --rate 500mbit --mesh 4 --against gloo",
    {"fsdp-4": "--workers 4 --rate 500mbit", "fsdp-8": "--workers 8 --rate 250mbit"},
    quick="--workers 2 --size 1MB --runs 1",
)
def fsdp(chosen: Options, *, output: Output) -> None:
    """Time steps of an FSDP2 training on shaped links, unmodified and overlapped, beside Gloo; equal losses."""
    from wiresum.bench.fsdp import measure as benchmark

    if chosen.mesh not in {None, chosen.workers}:
        raise typer.BadParameter(
            f"{chosen.mesh} shards are not the {chosen.workers} workers, and the network carries a group of all of "
            "them alone; give the same number, or leave it out",
            param_hint="--mesh",
        )
    with measuring(f"FSDP2 on {chosen.workers} workers at {chosen.rate_bps / 1e6:g} Mbit/s", output):
        report = benchmark.measure(chosen)
    show(report, output)
