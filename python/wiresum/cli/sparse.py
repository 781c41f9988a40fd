"""`wiresum sparse`: which rows of its tables a sparse model touches."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from wiresum.cli.sparse_layout import layout
from wiresum.commandline import options
from wiresum.commandline.console import note, out, print_json
from wiresum.commandline.contents import Section
from wiresum.commandline.progress import working
from wiresum.commandline.quantities import parse_fraction
from wiresum.commandline.tables import figures
from wiresum.plan.models import TABLES
from wiresum.sparse import FILE_TRACES, TRACES

if TYPE_CHECKING:
    from wiresum.sparse.counts import Counts
    from wiresum.sparse.profile import Profile

HOT_SETS = (1_000, 10_000, 30_000, 60_000, 100_000)
"""Rows of the hot sets that a trace is counted for; 30,000 and 60,000 are Zebra's."""

app = Section("Draw and count which rows of its tables a sparse model touches.")

app.command(epilog="Example: `wiresum sparse layout hot.json --registers 4096 --pairs 32`")(layout)

TraceArgument = Annotated[
    str,
    typer.Argument(
        metavar="TRACE", help=f"Trace with its fields, as criteo:scale=0.1,batch=512; one of {', '.join(TRACES)}"
    ),
]
RoundsOption = Annotated[int, typer.Option("--rounds", min=1, help="Number of rounds that are drawn")]
WorkersOption = Annotated[int, typer.Option("--workers", "-n", min=1, help="Number of workers that share the samples")]
SeedOption = Annotated[int | None, typer.Option("--seed", min=0, help="Seed of the trace [default: 0]")]
DataOption = Annotated[
    Path | None,
    typer.Option("--data-dir", help=f"Folder with the original files, for {' and '.join(FILE_TRACES)}"),
]


@app.command(epilog="Example: `wiresum sparse trace criteo:scale=0.1,batch=512 --workers 32`")
def trace(
    spec: TraceArgument,
    rounds: RoundsOption = 2,
    workers: WorkersOption = 8,
    learn: Annotated[
        int,
        typer.Option("--learn", min=0, help="Rounds that are counted before, to learn which rows are hot; 0: known"),
    ] = 0,
    seed: SeedOption = None,
    data_dir: DataOption = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="File for the keys that workers push, in NumPy's format npz")
    ] = None,
    as_json: options.JsonOption = False,
) -> None:
    """Count the distinct rows that workers push, alone and together, and what sums of hot rows spare a server.

    Zebra's formula 1 / ((1 − h) + h/N) stands beside what is counted: it supposes that every worker touches every hot
    row in every round.
    """
    from wiresum.sparse.counts import Counts
    from wiresum.sparse.frequencies import Frequencies
    from wiresum.sparse.record import write
    from wiresum.sparse.spec import parse

    drawn = parse(spec, seed, data_dir)
    with working(spec) as status:
        ranking = Frequencies.of(drawn, workers, learn, progress=status.say) if learn else None
        counts = Counts.of(drawn, workers, rounds, first_round=learn, ranking=ranking, progress=status.say)
        if output:
            write(output, spec, drawn, workers, range(learn, learn + rounds))
    if output:
        note(f"{output}: what {workers} workers push in {rounds} rounds")
    if as_json:
        hot = [counts.hot(rows).to_json() for rows in HOT_SETS]
        print_json({"trace": spec, "rows": drawn.rows, "lookups": drawn.lookups, **counts.to_json(), "hot": hot})
    else:
        _show_counts(counts)


@app.command(epilog="Example: `wiresum sparse profile oa --sampling 4%,8% --plot oa.png`")
def profile(
    spec: TraceArgument,
    rounds: RoundsOption = 10,
    workers: WorkersOption = 16,
    sampling: Annotated[
        str, typer.Option("--sampling", help="Shares of the samples whose hot rows are compared with those of all")
    ] = "4%,8%",
    hot: Annotated[int, typer.Option("--hot", min=1, help="Rows of the hot sets that are compared")] = 30_000,
    lookups: Annotated[
        bool, typer.Option("--lookups", help="Count every lookup, instead of one update for each worker and round")
    ] = False,
    seed: SeedOption = None,
    data_dir: DataOption = None,
    plot: options.PlotOption = None,
    as_json: options.JsonOption = False,
) -> None:
    """Count how often each row is updated: a curve as in Zebra's Fig. 4, its knee, and how samples find hot rows."""
    from wiresum.sparse.profile import profile as count
    from wiresum.sparse.spec import parse

    rates = [parse_fraction(text) for text in sampling.split(",") if text]
    drawn = parse(spec, seed, data_dir)
    with working(spec) as status:
        found = count(drawn, workers, rounds, rates, hot=hot, merged=not lookups, seed=seed or 0, progress=status.say)
    if plot:
        from wiresum.sparse.plot import draw

        draw({spec: found}, plot)
        note(f"{plot}: share of the updates by rows")
    if as_json:
        print_json({"trace": spec, "workers": workers, "rounds": rounds, **found.to_json()})
    else:
        _show_profile(found)


@app.command(epilog="Example: `wiresum sparse tables dlrm > tables.json`")
def tables(
    model: Annotated[str, typer.Argument(metavar="MODEL", help=f"Model with tables: {', '.join(TABLES)}")],
) -> None:
    """Print the tables of a model, to change them and use them as a file."""
    if model not in TABLES:
        raise typer.BadParameter(f"{model} has no tables; choose from {', '.join(TABLES)}")
    print(TABLES[model]().to_json(), end="")


@app.command(epilog="Example: `wiresum sparse job plan.json > job.json`")
def job(
    plan: options.PlanArgument,
    secret: Annotated[
        Path | None, typer.Option("--secret", help="File of the plan's secret [default: PLAN.secret]")
    ] = None,
) -> None:
    """Print the job file of a plan with tables, which `wiresum-node --tables` and clients read."""
    from wiresum.sparse.job import job_of_plan

    print(job_of_plan(plan, secret), end="")


def _show_counts(counts: Counts) -> None:
    shown = figures(("hot rows", "share h", "touched by any", "server takes", "gain", "formula"))
    for rows in HOT_SETS:
        one = counts.hot(rows)
        shown.add_row(
            f"{rows:,}", f"{one.share:.3f}", f"{one.distinct:,.0f}", f"{one.server_rows:,.0f}", f"{one.gain:.2f} ×",
            f"{one.formula:.2f} ×",
        )  # fmt: skip
    out().print(
        f"{counts.workers} workers push {counts.pushed:,.0f} distinct rows each, {counts.union:,.0f} together, a round"
    )
    out().print(shown)
    out().print(f"sums of all rows: {counts.workers * counts.pushed / counts.union:.2f} ×")


def _show_profile(found: Profile) -> None:
    shown = figures(("rows", "share of updates"))
    for top, share in found.shares.items():
        shown.add_row(f"{top:,}", f"{100 * share:.1f} %")
    out().print(f"{found.updates:,} updates of {found.seen:,} rows, out of {found.rows:,}")
    out().print(shown)
    out().print(f"knee: {found.knee:,} rows, after which 1,000 more bring less than 1 % of the updates")
    for one in found.sampled:
        out().print(
            f"{100 * one.rate:g} % of the samples: precision {100 * one.precision:.1f} % of the rows up to the knee, "
            f"{100 * one.top_precision:.1f} % of {found.hot:,}; Kendall's τ {one.tau:.2f} over {one.common:,} in both"
        )
