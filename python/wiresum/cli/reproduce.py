"""`wiresum reproduce`: a paper's statements beside what is computed and measured here."""

from pathlib import Path
from typing import Annotated

import typer

from wiresum.commandline import options
from wiresum.reproduce import PAPERS


def reproduce(
    paper: Annotated[str, typer.Argument(metavar="PAPER", help=f"Paper to reproduce: {', '.join(PAPERS)}")],
    rows: Annotated[
        str | None, typer.Option("--rows", help="Rows to show and to measure, as X1,X9 [default: all]")
    ] = None,
    live: Annotated[bool, typer.Option("--live/--no-live", help="Measure on this machine, or only compute")] = True,
    quick: Annotated[bool, typer.Option("--quick", help="Measure briefly, for a first look")] = False,
    data_dir: Annotated[
        Path | None, typer.Option("--data-dir", help="Folder with the public data that a paper uses, as its trace")
    ] = None,
    figures: Annotated[
        Path | None, typer.Option("--figures", help="Folder for pictures [default: build/reproduce/PAPER]")
    ] = None,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print the table as Markdown")] = False,
    as_json: options.JsonOption = False,
) -> None:
    """Print every statement of a paper: as printed, computed again, and measured here with the product's benchmarks.

    The classes say what is possible without the paper's hardware; `docs/reproduction.md` has them. A measurement that
    fails is shown in its row, and the exit code is then 1.

    Example: `wiresum reproduce xagg --quick`
    """
    from wiresum.cli import reproduction

    reproduction.run(
        paper, rows, live=live, quick=quick, data_dir=data_dir, figures=figures, markdown=markdown, as_json=as_json
    )
