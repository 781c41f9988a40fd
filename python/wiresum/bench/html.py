"""A benchmark's outcome as a page, or as a part of one."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from wiresum.bench.result import Report, machine
from wiresum.bench.table import COLUMNS, cells
from wiresum.errors import SupportError
from wiresum.page import Page
from wiresum.picture import picture

MOST_BARS = 40
"""Results in a picture; of more, the table alone is readable."""
BAR_INCHES = 0.32


def page(report: Report) -> Page:
    """A page about one benchmark."""
    made = Page(f"wiresum bench {report.benchmark}")
    made.lines([machine_in_words()])
    add(made, report)
    return made


def add(made: Page, report: Report) -> None:
    """Results as pictures and as a table, then the limit, the ratios and the notes; pictures need matplotlib."""
    made.table(("parameter", "value"), [(name, str(value)) for name, value in report.parameters.items()])
    for unit in dict.fromkeys(result.unit for result in report.results):
        with suppress(SupportError):
            _add_bars(made, report, unit)
    made.table(COLUMNS, [cells(result) for result in report.results])
    if report.limit:
        made.lines([f"Limit: {report.limit.value:.4g} {report.limit.unit} – {report.limit.explanation}"])
    if report.ratios:
        made.table(("ratio", "value"), [(ratio.name, f"{ratio.value:.3f}") for ratio in report.ratios])
    made.lines(report.notes)


def machine_in_words() -> str:
    """Where and when."""
    from datetime import UTC, datetime

    known = machine()
    when = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    return f"{when}; {known['cpu']}, {known['cores']} cores, Linux {known['kernel']}, load {known['load_1min']:.1f}"


def _add_bars(made: Page, report: Report, unit: str) -> None:
    """Medians of the results in one unit, with the least and the most of the runs."""
    found = [result for result in report.results if result.unit == unit]
    if not 1 < len(found) <= MOST_BARS:
        return
    with TemporaryDirectory() as folder:
        path = Path(folder) / "bars.svg"
        with picture(path, figsize=(9, 1 + BAR_INCHES * len(found))) as (_, axes):
            medians = [result.median for result in found]
            spread = [
                [result.median - min(result.runs) for result in found],
                [max(result.runs) - result.median for result in found],
            ]
            axes.barh([result.name for result in found], medians, xerr=spread, height=0.7, ecolor="black", capsize=2)
            axes.invert_yaxis()
            axes.set(xlabel=unit)
            axes.grid(axis="y", visible=False)
        made.picture(path, f"{report.benchmark}: median of each case in {unit}; lines reach from the least to the most")
