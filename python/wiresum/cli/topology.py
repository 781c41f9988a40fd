"""`wiresum topology`: prints topologies, to be changed and used as files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from wiresum.commandline.contents import Section
from wiresum.commandline.generators import command
from wiresum.commandline.quantities import parse_size
from wiresum.errors import TopologyError
from wiresum.topology.generators import TOPOLOGIES
from wiresum.topology.interchange import EXPORTERS, IMPORTERS

if TYPE_CHECKING:
    from wiresum.topology.model import Topology

app = Section("Print a topology, to change it and use it as a file.")

EXAMPLES = {
    "star": "--workers 8 --rate 250mbit > star8.json",
    "xagg": "--scale 0.005 > xagg.json",
    "servers": "--workers 8 --servers 4 --rate 250mbit > servers.json",
    "stragglers": "--slow-rate 25mbit > stragglers.json",
    "optical": "--units 8 --hosts-per-unit 4 --ports 4 --rate 50mbit --dark 20ms > optical.json",
    "fat-tree": "--k 8 --hosts-per-edge 6 --programmable 0.2 --seed 1 > fat-tree.json",
}


def show(topology: Topology) -> None:
    """On standard output."""
    print(topology.to_json(), end="")


for name in TOPOLOGIES:
    example = EXAMPLES.get(name, f"> {name}.json")
    app.command(name, epilog=f"Example: `wiresum topology {name} {example}`")(command(name, show))


@app.command("import", epilog="Example: `wiresum topology import fabric.txt --format hpcc --server n9 > fabric.json`")
def import_(
    file: Annotated[Path, typer.Argument(metavar="FILE")],
    form: Annotated[str, typer.Option("--format", "-f", help=f"One of: {', '.join(IMPORTERS)}")],
    server: Annotated[str | None, typer.Option("--server", help="Host that becomes the parameter server")] = None,
    programmable: Annotated[
        float | None, typer.Option("--programmable", help="Fraction of the switches that sum [default: as in the file]")
    ] = None,
    memory: Annotated[str, typer.Option("--memory", help="Memory of each switch that sums")] = "64MB",
    seed: Annotated[int, typer.Option("--seed", min=0, help="Seed that chooses the switches that sum")] = 0,
) -> None:
    """Read a topology in another tool's format, and give nodes their roles."""
    from wiresum.document import naming, read_text
    from wiresum.topology.generators.programmable import Programmable, with_roles

    if form not in IMPORTERS:
        raise TopologyError(f"there is no importer {form}; choose from {', '.join(IMPORTERS)}")
    chosen = None if programmable is None else Programmable(programmable, parse_size(memory), seed)
    text = read_text(file, "topology", TopologyError)
    with naming(file, TopologyError):
        made = IMPORTERS[form](text, file.stem[:32])
    show(with_roles(made, server, chosen))


@app.command(epilog="Example: `wiresum topology export fat-tree:k=4 --format containerlab > fat-tree.clab.yml`")
def export(
    topology: Annotated[str, typer.Argument(metavar="TOPOLOGY", help="Topology: a name, as fat-tree:k=4, or a file")],
    form: Annotated[str, typer.Option("--format", "-f", help=f"One of: {', '.join(EXPORTERS)}")],
) -> None:
    """Write a topology in another tool's format."""
    from wiresum.commandline.options import load_topology

    if form not in EXPORTERS:
        raise TopologyError(f"there is no exporter {form}; choose from {', '.join(EXPORTERS)}")
    print(EXPORTERS[form](load_topology(topology)), end="")


@app.command(epilog="Example: `wiresum topology lit optical:units=4,ports=3 > lit.json`")
def lit(
    topology: Annotated[
        str, typer.Argument(metavar="TOPOLOGY", help="Name or file of a topology with optical switches")
    ],
    circuit: Annotated[
        list[str] | None,
        typer.Option("--circuit", help="Two fibres that are joined, as u0-1,u3-2 [default: all units alike]"),
    ] = None,
) -> None:
    """Print the packet network that a topology with optical switches is while some circuits are lit."""
    from wiresum.commandline.options import load_topology
    from wiresum.topology.circuits import named, uniform

    there = load_topology(topology)
    show(there.with_circuits([named(there, one) for one in circuit] if circuit else uniform(there)))
