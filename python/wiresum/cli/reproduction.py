"""What `wiresum reproduce` does; apart from its options, as help needs them alone."""

from contextlib import suppress
from pathlib import Path
from typing import Any

import typer

from wiresum.bench.result import machine
from wiresum.commandline.console import fail, note, print_json
from wiresum.commandline.progress import spoken, working
from wiresum.commandline.tables import print_wide
from wiresum.errors import SupportError
from wiresum.registry import remedy
from wiresum.reproduce import PAPERS, pictures
from wiresum.reproduce.row import CLASSES, Finding, Paper, Row
from wiresum.reproduce.session import Session
from wiresum.reproduce.table import markdown as as_markdown
from wiresum.reproduce.table import render

FAILURE = 1
INTERRUPTED = 130
"""Exit code after Ctrl-C, as shells have it: 128 and the signal's number."""
NARROWEST = 150
"""Columns of the table where standard output is no terminal, or a narrow one."""


def run(
    paper: str,
    rows: str | None,
    *,
    live: bool,
    quick: bool,
    data_dir: Path | None,
    time_limit: float,
    figures: Path | None,
    html: Path | None,
    markdown: bool,
    as_json: bool,
) -> None:
    """Evaluates the rows that were asked for, shows them and draws the pictures.

    Raises:
        typer.BadParameter: there is no such paper or row.
        typer.Exit: a measurement failed, or Ctrl-C ended them; what was complete is shown before.
    """
    chosen = chosen_paper(paper)
    asked = chosen_rows(chosen, rows)
    findings: list[Finding] = []
    session = Session(chosen.benchmarks, quick, data_dir, time_limit)
    with suppress(KeyboardInterrupt), working(paper) as task:
        session.progress = task.say
        if live:
            note(f"measurements take {spoken(session.expected_s(asked))} on two idle cores, longer on busy ones")
        for number, row in enumerate(asked):
            task.expect(session.expected_s(asked[number:]) if live else 0.0)
            findings.append(row.evaluate(session if live else None))
    show(chosen, findings, session, markdown=markdown, as_json=as_json)
    drawn = draw(chosen, session, figures or Path("build/reproduce") / paper)
    if html:
        from wiresum.reproduce.html import page

        page(chosen, findings, session.reports, drawn).write(html)
        note(f"{html}: the report as a page")
    failed = [finding.id for finding in findings if finding.failed]
    if failed:
        fail(f"{', '.join(failed)} could not be measured; their rows say why", FAILURE)
    if len(findings) < len(asked):
        note(f"interrupted: {len(findings)} of {len(asked)} rows were complete")
        raise typer.Exit(INTERRUPTED)
    if failed:
        raise typer.Exit(FAILURE)


def chosen_paper(name: str) -> Paper:
    """A paper by its name.

    Raises:
        typer.BadParameter: there is none.
    """
    if name not in PAPERS:
        raise typer.BadParameter(f"there is no paper {name}; {remedy(name, PAPERS)}")
    return PAPERS[name]


def chosen_rows(paper: Paper, names: str | None) -> list[Row]:
    """Rows by their ids, in the paper's order; all without names.

    Raises:
        typer.BadParameter: there is no such row.
    """
    known = {row.id for row in paper.rows}
    asked = known if names is None else set(names.split(","))
    if asked - known:
        raise typer.BadParameter(
            f"there is no row {', '.join(sorted(asked - known))}; there are {', '.join(row.id for row in paper.rows)}",
            param_hint="--rows",
        )
    return [row for row in paper.rows if row.id in asked]


def show(paper: Paper, findings: list[Finding], session: Session, *, markdown: bool, as_json: bool) -> None:
    """One JSON object with the benchmarks' own reports, a table for a document, or one for a terminal."""
    if as_json:
        print_json(to_json(paper, findings, session))
    elif markdown:
        print(as_markdown(findings))
    else:
        print_wide(render(paper.title, findings), NARROWEST)


def to_json(paper: Paper, findings: list[Finding], session: Session) -> dict[str, Any]:
    """For machines."""
    return {
        "paper": paper.title,
        "conditions": paper.conditions,
        "machine": machine(),
        "classes": CLASSES,
        "rows": [finding.to_json() for finding in findings],
        "reports": {name: report.to_json() for name, report in session.reports.items()},
    }


def draw(paper: Paper, session: Session, folder: Path) -> dict[str, Path]:
    """Pictures of what was measured, by the names of the paper's; without matplotlib a remark."""
    drawn: dict[str, Path] = {}
    try:
        for name, path in pictures.draw(paper, session.reports, folder):
            drawn[name] = path
            note(f"{path}: like {name}")
    except SupportError as missing:
        note(f"no pictures: {missing}")
    return drawn
