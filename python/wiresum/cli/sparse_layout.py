"""`wiresum sparse layout`: what a hot map costs a switch, for each layout and packaging."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from wiresum.commandline.console import out, print_json
from wiresum.commandline.options import JsonOption
from wiresum.errors import PlanError

COLUMNS = ("layout", "packaging", "packets", "one pair a pass", "one of a register", "most")


def layout(
    file: Annotated[Path, typer.Argument(metavar="MAP", help="Hot map: a file")],
    registers: Annotated[int, typer.Option("--registers", min=1, max=65536, help="Registers of the switch")],
    pairs: Annotated[int, typer.Option("--pairs", min=1, max=65536, help="Most pairs of a packet")],
    pushes: Annotated[int, typer.Option("--pushes", min=1, max=10_000, help="Pushes that are drawn")] = 20,
    lookups: Annotated[int, typer.Option("--lookups", min=1, max=1_000_000, help="Lookups before each push")] = 10_000,
    exponent: Annotated[
        float, typer.Option("--exponent", min=0.0, max=4.0, help="Exponent of Zipf's law, by which positions are drawn")
    ] = 1.0,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Seed of the draws and of the random layout")] = 1,
    as_json: JsonOption = False,
) -> None:
    """Count recirculations and packets of each layout of a hot map, and of each packaging of pushes.

    A switch reaches a register once in a pass. `one pair a pass` counts recirculations a packet in a program that takes
    one pair in each pass, as that of Zebra's authors does. `one of a register` counts them in a program that takes one
    pair of each register in a pass.
    """
    from wiresum._native import sparse_layout
    from wiresum.document import read_text
    from wiresum.sparse.documents import HotMap

    text = read_text(file, HotMap.what, HotMap.error)
    found = sorted(position for _, _, position, _ in HotMap.parse(text, str(file)).rows)
    drawn = _draw(file, found, pushes, lookups, exponent, seed)
    rows: list[dict[str, Any]] = json.loads(sparse_layout(text, drawn, registers, pairs, seed))
    if as_json:
        print_json(rows)
        return
    _show(rows, drawn)


def _draw(file: Path, found: list[int], pushes: int, lookups: int, exponent: float, seed: int) -> list[list[int]]:
    """The distinct positions of each push, of those that have a row, in the order in which they are drawn first."""
    import numpy as np

    from wiresum.sparse.popularity import Popularity

    if not found:
        raise PlanError(f"hot map {file}: has no rows; give one that has some")
    positions = np.array(found, dtype=np.int64)
    uniform = np.random.default_rng(seed).random((pushes, lookups))
    ranks = Popularity.zipf(len(positions), exponent).draw(uniform)
    return [positions[list(dict.fromkeys(push))].tolist() for push in ranks.tolist()]


def _show(rows: list[dict[str, Any]], drawn: list[list[int]]) -> None:
    pairs = sum(map(len, drawn))
    out().print(f"{len(drawn)} pushes of {pairs / len(drawn):.0f} distinct rows", markup=False, highlight=False)
    out().print(f"{COLUMNS[0]:<8}{COLUMNS[1]:<13}" + "".join(f"{name:>19}" for name in COLUMNS[2:]), highlight=False)
    for row in rows:
        packets = f"{row['packets']} ({row['packets'] / row['full_packets']:.3f} x)"
        counts = f"{row['one_pair_a_pass']:>19.3f}{row['multiplicity']:>19.3f}{row['most']:>19}"
        out().print(f"{row['layout']:<8}{row['packaging']:<13}{packets:>19}{counts}", highlight=False)
