"""`wiresum bench sim`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from wiresum.bench.command import Output, RunsOption, command, measuring, show, some_of
from wiresum.commandline import options

FIDELITIES = ("trains", "packets", "flows", "memory")


@dataclass(frozen=True)
class Options:
    """What to run."""

    fidelities: Annotated[
        tuple[str, ...],
        typer.Option("--fidelities", help="Fidelities to measure, comma-separated: trains,packets,flows,memory"),
    ] = some_of(FIDELITIES, "--fidelities")
    runs: RunsOption = 3
    scale: Annotated[float, typer.Option("--scale", min=0.0001, help="Factor on the bytes that are sent")] = 1.0
    htsim: Annotated[
        Path | None, typer.Option("--htsim", help="Path of csg-htsim's htsim_ndp, to run beside packets, turn by turn")
    ] = None
    keep: Annotated[Path | None, typer.Option("--keep", help="Folder for the resolved scenarios")] = None


@command(
    "Planners, simulator, networks of switches",
    "--fidelities trains,flows --runs 1",
    {"sim": ""},
    quick="--fidelities trains,flows --scale 0.01 --runs 1",
)
def sim(chosen: Options, *, output: Output) -> None:
    """Measure how fast the simulator is at each fidelity, per second of CPU time, and what memory it takes."""
    from wiresum.bench.sim import measure as benchmark

    with measuring("virtual time", output) as status:
        report = benchmark.measure(chosen, options.load_topology, status.say)
    show(report, output)
