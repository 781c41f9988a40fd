"""Findings for people: a table for a terminal, and one for a document."""

from __future__ import annotations

from collections.abc import Iterable

from rich.table import Table
from rich.text import Text

from wiresum.reproduce.row import CLASSES, Finding

COLUMNS = ("", "quantity", "class", "paper", "recomputed", "ours")


def render(title: str, findings: Iterable[Finding]) -> Table:
    """Lines between rows, as cells are long; what the classes mean below."""
    table = Table(title=title, caption=legend(), show_lines=True, caption_justify="left")
    for column in COLUMNS:
        table.add_column(column, overflow="fold", no_wrap=column in {"", "class"})
    for finding in findings:
        style = "red" if finding.failed else ""
        table.add_row(*(Text(cell, style=style) for cell in cells(finding)))
    return table


def markdown(findings: Iterable[Finding]) -> str:
    """A table for a document."""
    lines = [" | ".join(COLUMNS), " | ".join("---" for _ in COLUMNS)]
    lines += [" | ".join(cell.replace("|", "\\|") for cell in cells(finding)) for finding in findings]
    return "\n".join(f"| {line} |" for line in lines)


def cells(finding: Finding) -> tuple[str, ...]:
    """A finding by columns."""
    quantity = f"{finding.what} ({finding.source})"
    return (finding.id, quantity, ", ".join(finding.classes), finding.paper, finding.recomputed, finding.ours)


def legend() -> str:
    """What the letters of classes mean."""
    return "\n".join(f"{letter}: {meaning}" for letter, meaning in CLASSES.items())
