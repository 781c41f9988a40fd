"""`wiresum reproduce`: a paper's statements beside what is computed and measured here."""

from pathlib import Path
from typing import Annotated

import typer

from wiresum.commandline import completion, options
from wiresum.plan.choices import DEFAULT_TIME_LIMIT_S
from wiresum.reproduce import PAPERS


def reproduce(
    paper: Annotated[
        str | None,
        typer.Argument(
            metavar="PAPER",
            help=f"Paper to reproduce: {', '.join(PAPERS)}",
            autocompletion=completion.name(PAPERS),
        ),
    ] = None,
    rows: Annotated[
        str | None, typer.Option("--rows", help="Rows to show and to measure, as X1,X9 [default: all]")
    ] = None,
    listed: Annotated[bool, typer.Option("--list", help="List the papers, or one's rows with their times")] = False,
    live: Annotated[bool, typer.Option("--live/--no-live", help="Measure on this machine, or only compute")] = True,
    quick: Annotated[bool, typer.Option("--quick", help="Measure briefly, for a first look")] = False,
    time_limit: Annotated[
        float, typer.Option("--time-limit", min=0.1, help="Seconds for each plan of a planner that searches")
    ] = DEFAULT_TIME_LIMIT_S,
    data_dir: Annotated[
        Path | None, typer.Option("--data-dir", help="Folder with the public data that a paper uses, as its trace")
    ] = None,
    figures: Annotated[
        Path | None, typer.Option("--figures", help="Folder for pictures [default: build/reproduce/PAPER]")
    ] = None,
    html: options.HtmlOption = None,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print the table as Markdown")] = False,
    as_json: options.JsonOption = False,
) -> None:
    """Print every statement of a paper: as printed, computed again, and measured here by benchmarks.

    The classes say what is possible without the paper's hardware; `docs/reproduction.md` has them. A measurement that
    fails is shown in its row, and the exit code is then 1.

    Example: `wiresum reproduce xagg --quick`
    """
    from wiresum.cli.paper_rows import show_papers, show_rows

    if paper is None:
        if not listed:
            raise typer.BadParameter(f"name a paper: {', '.join(PAPERS)}", param_hint="PAPER")
        show_papers(as_json=as_json)
        return
    from wiresum.cli import reproduction

    if listed:
        chosen = reproduction.chosen_paper(paper)
        show_rows(chosen, reproduction.chosen_rows(chosen, rows), quick=quick, as_json=as_json)
        return
    reproduction.run(
        paper,
        rows,
        live=live,
        quick=quick,
        data_dir=data_dir,
        time_limit=time_limit,
        figures=figures,
        html=html,
        markdown=markdown,
        as_json=as_json,
    )
