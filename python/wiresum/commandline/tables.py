"""Tables for people: words flush left, figures flush right."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, Any

from wiresum.commandline.console import out

if TYPE_CHECKING:
    from rich.table import Table


def figures(columns: Iterable[str], words: Collection[str] = ("",), *, unbroken: bool = False, **look: Any) -> Table:
    """A table of figures, without rows.

    Args:
        columns: their headings.
        words: headings of columns that have words, not figures.
        unbroken: whether each cell stays on one line.
        look: of `rich.table.Table`.
    """
    from rich.table import Table

    made = Table(**look)
    for column in columns:
        made.add_column(column, justify="left" if column in words else "right", no_wrap=unbroken)
    return made


def comparison(columns: Iterable[str], words: Collection[str]) -> Table:
    """The same for many columns, with a line under their headings alone."""
    from rich.box import SIMPLE_HEAD

    return figures(columns, words, unbroken=True, box=SIMPLE_HEAD, padding=(0, 1, 0, 0))


def print_wide(shown: Table, narrowest: int) -> None:
    """Prints a table, at least so many columns wide where standard output is no terminal, or a narrow one."""
    from rich.console import Console

    Console(highlight=False, width=max(out().width, narrowest)).print(shown)
