"""`wiresum bench rows`."""

from typing import Annotated

import typer

from wiresum.bench.command import Output, RunsOption, command, measuring, show

RowsOption = Annotated[int, typer.Option("--rows", min=1, help="Rows of the server's table; 10 million take 1.4 GB")]


@command("Packets, on one core", "--runs 5", quick="--rows 100000 --runs 1")
def rows(runs: RunsOption = 7, table_rows: RowsOption = 10_000_000, *, output: Output) -> None:
    """Time one hot row through the kernel's switch, and rows of a server's table beside PyTorch's sparse Adagrad."""
    from wiresum.bench.rows.measure import measure

    with measuring("hot rows through the kernel's test-run; tables at a server and in PyTorch", output):
        report = measure(runs, table_rows)
    show(report, output)
