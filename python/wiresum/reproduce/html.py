"""A paper's statements, pictures and measurements as a page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from wiresum.bench.html import add, machine_in_words
from wiresum.bench.result import Report
from wiresum.page import Page
from wiresum.reproduce.row import CLASSES, Finding, Paper
from wiresum.reproduce.table import COLUMNS, cells


def page(
    paper: Paper, findings: Sequence[Finding], reports: Mapping[str, Report], pictures: Mapping[str, Path]
) -> Page:
    """The statements first, then pictures like the paper's, then what was measured.

    Args:
        paper: whose statements these are.
        findings: rows that were evaluated.
        reports: what was measured for them, by name.
        pictures: files by the names of the paper's figures.
    """
    made = Page(paper.title)
    made.lines([machine_in_words(), f"Conditions: {paper.conditions}."])
    made.table(COLUMNS, [cells(finding) for finding in findings], [finding.failed for finding in findings])
    made.table(("class", "meaning"), list(CLASSES.items()))
    for name, path in pictures.items():
        made.picture(path, f"Like {name} of the paper")
    for name, report in reports.items():
        made.heading(f"Measured: {paper.benchmarks[name].command}")
        add(made, report)
    return made
