"""What `wiresum reproduce` does; apart from its options, as it needs PyTorch, which takes seconds to import."""

from pathlib import Path
from typing import Any

import typer
from rich.console import Console

from wiresum.bench.result import machine
from wiresum.commandline.console import err, note, out, print_json
from wiresum.errors import SupportError
from wiresum.reproduce import PAPERS, pictures
from wiresum.reproduce.row import CLASSES, Finding, Paper, Row
from wiresum.reproduce.session import Session
from wiresum.reproduce.table import markdown as as_markdown
from wiresum.reproduce.table import render

FAILURE = 1
NARROWEST = 150
"""Columns of the table where standard output is no terminal, or a narrow one."""


def run(
    paper: str,
    rows: str | None,
    *,
    live: bool,
    quick: bool,
    data_dir: Path | None,
    figures: Path | None,
    markdown: bool,
    as_json: bool,
) -> None:
    """Evaluates the rows that were asked for, shows them and draws the pictures.

    Raises:
        typer.BadParameter: there is no such paper or row.
        typer.Exit: a measurement failed.
    """
    chosen = chosen_paper(paper)
    asked = chosen_rows(chosen, rows)
    with err().status("") as status:
        session = Session(chosen.benchmarks, quick, status.update, data_dir)
        if live:
            note(f"measurements take about {session.expected_seconds(asked) / 60:.0f} minutes on two idle cores")
        findings = [row.evaluate(session if live else None) for row in asked]
    show(chosen, findings, session, markdown=markdown, as_json=as_json)
    draw(chosen, session, figures or Path("build/reproduce") / paper)
    failed = [finding.id for finding in findings if finding.failed]
    if failed:
        err().print(f"error: {', '.join(failed)} could not be measured; their rows say why")
        raise typer.Exit(FAILURE)


def chosen_paper(name: str) -> Paper:
    """A paper by its name.

    Raises:
        typer.BadParameter: there is none.
    """
    if name not in PAPERS:
        raise typer.BadParameter(f"there is no paper {name}; choose from {', '.join(PAPERS)}")
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
        Console(width=max(out().width, NARROWEST), highlight=False).print(render(paper.title, findings))


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


def draw(paper: Paper, session: Session, folder: Path) -> None:
    """Pictures of what was measured; without matplotlib a remark."""
    try:
        for name, path in pictures.draw(paper, session.reports, folder):
            note(f"{path}: like {name}")
    except SupportError as missing:
        note(f"no pictures: {missing}")
