"""A benchmark's outcome for people."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from wiresum.bench.result import Report, Result

COLUMNS = ("", "median", "min", "max", "unit", "runs")


def render(report: Report) -> RenderableType:
    """Results with their spread, then the limit, the ratios and the notes."""
    table = Table(title=f"{report.benchmark}: " + ", ".join(f"{k} {v}" for k, v in report.parameters.items()))
    for column in COLUMNS:
        table.add_column(column, justify="left" if column in {"", "unit"} else "right")
    for result in report.results:
        table.add_row(*cells(result))
    lines = []
    if report.limit:
        lines.append(f"limit: {report.limit.value:.4g} {report.limit.unit} – {report.limit.explanation}")
    for ratio in report.ratios:
        lines.append(f"{ratio.name}: {ratio.value:.3f}")
    return Group(table, *(Text(line) for line in [*lines, *report.notes]))


def cells(result: Result) -> tuple[str, ...]:
    """A result by columns."""
    spread = [f"{value:.4g}" for value in (result.median, min(result.runs), max(result.runs))]
    return (result.name, *spread, result.unit, str(len(result.runs)))
