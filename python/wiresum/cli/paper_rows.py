"""`wiresum reproduce --list`: which rows a paper has, and how long they take."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from wiresum.commandline.console import out, print_json
from wiresum.reproduce import TITLES

if TYPE_CHECKING:
    from wiresum.reproduce.row import Paper, Row

MINUTE_S = 60.0


def show_papers(*, as_json: bool) -> None:
    """Lists the papers, one a line."""
    if as_json:
        print_json(TITLES)
        return
    for name, title in TITLES.items():
        print(f"{name:{max(map(len, TITLES))}}  {title}")


def show_rows(paper: Paper, rows: list[Row], *, quick: bool, as_json: bool) -> None:
    """Lists rows of a paper without evaluating them.

    Args:
        paper: which has them.
        rows: of it, in its order.
        quick: whether times are those of brief measurements.
        as_json: an array of objects in place of a table.
    """
    listed = [_row(paper, row, quick=quick) for row in rows]
    if as_json:
        print_json(listed)
        return
    from rich import box
    from rich.table import Table

    table = Table("row", "class", "of the paper", "statement", "minutes", box=box.SIMPLE_HEAD)
    for one in listed:
        minutes = "" if not one["seconds"] else f"{one['seconds'] / MINUTE_S:.1f}"
        table.add_row(one["id"], one["classes"], one["source"], one["what"], minutes)
    out().print(table)
    out().print("Rows that share a measurement take its time once. Times are those of two idle cores.")


def _row(paper: Paper, row: Row, *, quick: bool) -> dict[str, Any]:
    needed = [paper.benchmarks[name] for name in row.needs]
    seconds = sum(one.quick_seconds if quick else one.seconds for one in needed)
    return {
        "id": row.id,
        "classes": row.classes,
        "source": row.source,
        "what": row.what,
        "seconds": seconds,
        "commands": [one.command for one in needed],
    }
