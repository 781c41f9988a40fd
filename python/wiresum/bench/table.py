"""A benchmark's outcome for people."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.text import Text

from wiresum.bench.result import Report, Result
from wiresum.commandline.tables import figures

COLUMNS = ("", "median", "min", "max", "unit", "runs")


def render(report: Report) -> RenderableType:
    """Results with their spread, then the limit, the ratios and the notes."""
    title = f"{report.benchmark}: " + ", ".join(f"{k} {v}" for k, v in report.parameters.items())
    shown = figures(COLUMNS, ("", "unit"), title=title)
    for result in report.results:
        shown.add_row(*cells(result))
    lines = []
    if report.limit:
        lines.append(f"limit: {report.limit.value:.4g} {report.limit.unit} – {report.limit.explanation}")
    for ratio in report.ratios:
        lines.append(f"{ratio.name}: {ratio.value:.3f}")
    return Group(shown, *(Text(line) for line in [*lines, *report.notes]))


def cells(result: Result) -> tuple[str, ...]:
    """A result by columns."""
    spread = [f"{value:.4g}" for value in (result.median, min(result.runs), max(result.runs))]
    return (result.name, *spread, result.unit, str(len(result.runs)))
