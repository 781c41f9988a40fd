"""Errors for people: a row for each kind of tensors and way, a column for each number of ranks."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from wiresum.bench.result import Report


def render(report: Report) -> RenderableType:
    """Medians, then the ratios and what the ways are."""
    ranks = list(dict.fromkeys(int(result.extra["ranks"]) for result in report.results))
    table = Table(title="accuracy: RMS error of a sum, of its RMS, by number of ranks")
    for column in ("", *map(str, ranks)):
        table.add_column(column, justify="right" if column else "left")
    medians = {(r.extra["data"], r.extra["way"], r.extra["ranks"]): r.median for r in report.results}
    for data, way in dict.fromkeys((data, way) for data, way, _ in medians):
        table.add_row(f"{data}: {way}", *(f"{medians[data, way, count]:.2e}" for count in ranks))
    ratios = [f"{ratio.name}: {ratio.value:.3f}" for ratio in report.ratios]
    return Group(table, *(Text(line) for line in [*ratios, *report.notes]))
