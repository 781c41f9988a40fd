"""`wiresum bench fsdp`."""

import re
from dataclasses import dataclass
from typing import Annotated, Literal, NamedTuple

import typer

from wiresum.bench.command import Output, RunsOption, command, limited, measuring, show, suitable_engine
from wiresum.commandline import options
from wiresum.commandline.groups import Reading, read, repeated, text
from wiresum.commandline.quantities import parse_size
from wiresum.plan.choices import Engine

DEFAULT_WORKERS = 4
Dtype = Literal["float32", "bfloat16"]


class Mesh(NamedTuple):
    """Ranks in rows: each row has the whole model, each rank of it a shard.

    Attributes:
        replicas: rows.
        shards: ranks of a row.
    """

    replicas: int
    shards: int

    @property
    def ranks(self) -> int:
        """All of them."""
        return self.replicas * self.shards

    def __str__(self) -> str:
        return f"{self.replicas}x{self.shards}"


def parse_mesh(given: str) -> Mesh:
    """A mesh from `4`, which has no replicas, or from `2x4`.

    Raises:
        typer.BadParameter: it has another form, or fewer than two shards.
    """
    found = re.fullmatch(r"(?:([1-9]\d*)x)?([1-9]\d*)", given)
    if not found or int(found[2]) == 1:
        raise typer.BadParameter(
            f"{given} is no mesh; give the number of shards, as 4, or replicas and shards, as 2x4", param_hint="--mesh"
        )
    return Mesh(int(found[1] or 1), int(found[2]))


@dataclass(frozen=True)
class Options:
    """What to train, on which links.

    Attributes:
        mesh: of the ranks; all workers in one row where absent.
        servers: around a switch that only forwards; none: the switch sums.
        copy_servers: most of these that exchange; as many as the planner takes where absent.
        warmups: runs of each training before those that are measured; in the first `overlap` learns the order.
    """

    workers: Annotated[
        int | None,
        typer.Option(
            "--workers", "-n", min=2, help="Number of hosts around a switch that sums [default: the mesh's, or 4]"
        ),
    ] = None
    rate_bps: Annotated[float, typer.Option("--rate", help="Rate of each link, each way: 500mbit, 1gbit")] = text(
        "500mbit", limited
    )
    mesh: Annotated[
        tuple[int, int] | None,
        typer.Option("--mesh", help="Mesh of the workers: 4 shards, or 2x4 for 2 replicas of 4 shards each (HSDP)"),
    ] = read(None, Reading(str | None, None, lambda given: given and parse_mesh(given)))
    servers: Annotated[
        int,
        typer.Option("--servers", min=0, help="Number of hosts that sum, with the workers' links; 0: the switch sums"),
    ] = 0
    copy_servers: Annotated[
        int | None, typer.Option("--copy-servers", min=1, help="Most of the --servers that exchange [default: all]")
    ] = None
    dtype: Annotated[
        Dtype,
        typer.Option("--dtype", help="Type of parameters and gradients on their way; bfloat16 is mixed precision"),
    ] = "float32"
    size_bytes: Annotated[int, typer.Option("--size", help="Size of the model in float32: 25MB, 1MiB")] = text(
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
    def grid(self) -> Mesh:
        """The mesh, which is there even where none was given."""
        return Mesh(*self.mesh) if self.mesh else Mesh(1, self.workers or DEFAULT_WORKERS)

    @property
    def ways(self) -> list[bool]:
        """Whether the model is overlapped, for each training."""
        return [False, True] if self.overlap is None else [self.overlap]


@command(
    "All-reduces and trainings",
    "--mesh 2x4 --rate 250mbit --dtype bfloat16 --against gloo",
    {
        "fsdp-4": "--workers 4 --rate 500mbit",
        "fsdp-8": "--workers 8 --rate 250mbit",
        "fsdp-4-bfloat16": "--workers 4 --rate 250mbit --dtype bfloat16",
        "fsdp-2x4": "--mesh 2x4 --rate 250mbit",
    },
    quick="--workers 2 --size 1MB --runs 1",
)
def fsdp(chosen: Options, *, output: Output) -> None:
    """Time steps of an FSDP2 training on shaped links, unmodified and overlapped, beside Gloo; equal losses."""
    from wiresum.bench.fsdp import measure as benchmark

    grid = chosen.grid
    if chosen.workers not in {None, grid.ranks}:
        raise typer.BadParameter(
            f"a mesh of {grid.ranks} ranks is not the {chosen.workers} workers; give the same number, or leave out "
            "--workers",
            param_hint="--mesh",
        )
    with measuring(f"FSDP2 on a mesh of {grid} workers at {chosen.rate_bps / 1e6:g} Mbit/s", output):
        report = benchmark.measure(chosen)
    show(report, output)
