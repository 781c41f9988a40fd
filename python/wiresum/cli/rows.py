"""`wiresum plan --tables`: where each row of a sparse model is summed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from wiresum.commandline.console import note, out, print_json
from wiresum.commandline.progress import working
from wiresum.commandline.tables import comparison, figures, print_wide
from wiresum.errors import NotWorthwhileError, PlanError
from wiresum.planners import ROW_PLANNERS

if TYPE_CHECKING:
    from wiresum.plan.job import Job
    from wiresum.plan.options import PlanOptions
    from wiresum.plan.sparse import SparsePart
    from wiresum.planners.tiers.instance import SparseInstance
    from wiresum.sparse.trace import Trace
    from wiresum.topology.model import Topology

FULLEST = 8
"""Directions of links that a summary lists."""
NARROWEST = 100
"""Columns of a comparison where standard output is no terminal, or a narrow one."""
COLUMNS = ("planner", "replicated", "summed", "a round", "updates/s", "over push/pull", "bottleneck", "took")
"""Rows of tiers A and B, a round's predicted time with what limits it, and the planner's own time."""


@dataclass(frozen=True)
class CountedRows:
    """Rows of a sparse model, which the planners of rows place."""

    trace: Annotated[
        str | None,
        typer.Option(
            "--trace",
            help=f"Trace whose rows {' or '.join(ROW_PLANNERS)} places, as criteo:scale=0.1,batch=512 "
            "[default: Zipf over --tables]",
        ),
    ] = None
    tables: Annotated[
        Path | None,
        typer.Option(
            "--tables", help="File with tables, as `wiresum sparse tables` prints [default: those of --trace]"
        ),
    ] = None
    beside: Annotated[
        bool,
        typer.Option("--beside", help="Keep a shard of the tables of --trace beside every worker, not at servers"),
    ] = False
    replicas: Annotated[
        int | None,
        typer.Option(
            "--replicas", min=0, help="Most rows that the planner tiers lets every worker keep [default: all]"
        ),
    ] = None

    def drawn(self, planner: str) -> tuple[str, Trace]:
        """The trace that is counted, as it is written and as it is drawn.

        Raises:
            PlanError: there is neither a trace nor tables.
            TraceError: there is no such trace, or its tables are others.
        """
        from wiresum.plan.tables import Tables
        from wiresum.sparse.spec import OF_TABLES, parse

        if self.trace is None and self.tables is None:
            raise PlanError(f"{planner} places rows of a sparse model; say which ones with --tables or --trace")
        spec = self.trace or OF_TABLES
        return spec, parse(spec, tables=Tables.read(self.tables) if self.tables else None)

    def counted(self, planner: str, topology: Topology, dense_bytes: int) -> tuple[str, Trace, SparseInstance]:
        """The trace, as it is written and as it is drawn, and the question to the planners, its popularity counted.

        Raises:
            PlanError: there is neither a trace nor tables, or the topology has no place for servers.
            TraceError: there is no such trace, or its tables are others.
        """
        from dataclasses import replace

        from wiresum.planners.row_plans import counted
        from wiresum.planners.tiers.instance import servers_of
        from wiresum.predict.sparse import SparseNetwork

        network = SparseNetwork(topology, servers_of(topology, beside=self.beside))
        spec, drawn = self.drawn(planner)
        with working(spec) as status:
            return spec, drawn, replace(counted(network, drawn, dense_bytes, status.say), replicas=self.replicas)


@dataclass(frozen=True)
class RowOptions(CountedRows):
    """The same for a plan, which names the rows that are summed."""

    hot: Annotated[
        Path | None,
        typer.Option("--hot", help="File for the hot map, with the rows that are summed [default: PLAN.hot]"),
    ] = None
    tracking: Annotated[
        str | None,
        typer.Option(
            "--tracking",
            help="Tracking of popular rows while the job runs: decaying:period=10,reach=1.3, once:after=10 or "
            "sampling:rate=0.04,after=200 [default: they stay]",
        ),
    ] = None


def plan_rows(
    planner: str,
    topology: Topology,
    rows: RowOptions,
    job: Job,
    options: PlanOptions,
    dense_bytes: int,
    output: Path | None,
    *,
    as_json: bool,
) -> None:
    """Plans, writes and shows: a plan with tables beside the dense streams of a job.

    Raises:
        PlanError: there is neither a trace nor tables, or the planner found no answer.
        NotWorthwhileError: sums on the way would not make rounds quicker.
    """
    from wiresum.planners import place_rows

    spec, drawn, asked = rows.counted(planner, topology, dense_bytes)
    part = place_rows(asked, planner)
    _write(part, drawn, spec, asked, job, options, output, rows)
    if as_json:
        print(part.to_json(), end="")
    else:
        show(part)
    if not part.worthwhile:
        raise NotWorthwhileError(part.reason)


def _write(
    part: SparsePart,
    trace: Trace,
    spec: str,
    asked: SparseInstance,
    job: Job,
    options: PlanOptions,
    output: Path | None,
    asked_rows: RowOptions,
) -> None:
    """The plan's file, and the hot map's beside it."""
    from wiresum.document import write_text
    from wiresum.plan.tracking import tracking_of
    from wiresum.planners.row_plans import plan_with_rows, sums_in_a_tree
    from wiresum.sparse.hot import hot_map

    rows, hot = part.replicated_rows + part.summed_rows, asked_rows.hot
    tracking = tracking_of(asked_rows.tracking) if asked_rows.tracking else None
    file = hot or (Path(f"{output}.hot") if output else None)
    text = hot_map(trace, part.replicated_rows, part.summed_rows) if rows and file else None
    if hot and text is None:
        raise PlanError(f"{hot}: is not written, as no row is hot in this plan; leave --hot out")
    if output:
        made = plan_with_rows(
            asked.network,
            job,
            part,
            tree=text is not None and sums_in_a_tree(asked, part),
            options=options,
            hot=text,
            file=file or "",
            trace=spec,
            tracking=tracking,
        )
        made.write(output)
        note(f"{output}: {len(made.workers)} workers, {len(part.servers)} servers of {len(part.tables)} tables")
    if text and file:
        write_text(file, text, "hot map", PlanError)
        note(f"{file}: {rows:,} hot rows")


def show(part: SparsePart) -> None:
    """Where rows are summed, the fullest links, and the gain over other methods."""
    links = figures(("link", "MB", "seconds"), ("link",))
    for load in sorted(part.loads, key=lambda one: -one.seconds)[:FULLEST]:
        links.add_row(f"{load.source} → {load.target}", f"{load.bytes / 1e6:,.3f}", f"{load.seconds:.4f}")
    gains = part.gains
    out().print(part.planner)
    out().print(links)
    out().print(
        f"a round: {part.seconds:.4f} s, {part.updates_per_second:,.0f} updates/s; bottleneck {part.bottleneck}; "
        f"over push/pull {gains.push_pull:.2f} ×, Zebra's flow {gains.zebra:.2f} ×, sums of all rows {gains.sums:.2f} ×"
    )


def compare_rows(
    planners: Sequence[str], topology: Topology, rows: CountedRows, dense_bytes: int, *, as_json: bool
) -> None:
    """Asks planners of rows the same question, and shows their answers side by side."""
    from wiresum.planners.comparison import compare_rows as ask

    made = list(ask(rows.counted(planners[0], topology, dense_bytes)[2], planners))
    if as_json:
        print_json([candidate.to_json() for candidate in made])
        return
    shown = comparison(COLUMNS, ("planner", "bottleneck"))
    for candidate in made:
        if candidate.part is not None:
            shown.add_row(candidate.planner, *_cells(candidate.part), f"{candidate.seconds:.1f} s")
    print_wide(shown, NARROWEST)
    for candidate in made:
        said = candidate.refusal or ("" if candidate.part is None else candidate.part.reason)
        out().print(f"{candidate.planner}: {said}", markup=False)


def _cells(part: SparsePart) -> list[str]:
    return [
        f"{part.replicated_rows:,}",
        f"{part.summed_rows:,}",
        f"{part.seconds:.4g} s",
        f"{part.updates_per_second:,.0f}",
        f"{part.gains.push_pull:.2f} ×",
        part.bottleneck,
    ]
