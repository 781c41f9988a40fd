"""`wiresum plan --trace`: where each row of a sparse model is summed."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from wiresum.commandline.console import err, note, out
from wiresum.errors import NotWorthwhileError, PlanError, TraceError
from wiresum.planners import ROW_PLANNERS

if TYPE_CHECKING:
    from wiresum.plan.sparse import SparsePart
    from wiresum.sparse.trace import Trace
    from wiresum.topology.model import Topology

COUNTED_ROUNDS = 2
"""Rounds of a trace that are counted: with eight workers, counts of two rounds differ by a percent."""
FULLEST = 8
"""Directions of links that a summary lists."""


@dataclass(frozen=True)
class RowOptions:
    """Rows of a sparse model, for the planners of rows."""

    trace: Annotated[
        str | None,
        typer.Option(
            "--trace",
            help=f"Trace of the model whose rows {' or '.join(ROW_PLANNERS)} places, as criteo:scale=0.1,batch=512",
        ),
    ] = None
    tables: Annotated[
        Path | None,
        typer.Option(
            "--tables", help="File with tables, as `wiresum sparse tables` prints, for --trace [default: the trace's]"
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
    hot: Annotated[
        Path | None, typer.Option("--hot", help="File for the hot map, with the rows of --trace that are summed")
    ] = None


def plan_rows(
    planner: str, topology: Topology, rows: RowOptions, dense_bytes: int, output: Path | None, *, as_json: bool
) -> None:
    """Plans, writes and shows; on its own, as rows have no place in the plan's file yet.

    Raises:
        PlanError: there is no trace, or the planner found no answer.
        NotWorthwhileError: sums on the way would not make rounds quicker.
    """
    from wiresum.plan.tables import Tables
    from wiresum.planners import place_rows
    from wiresum.planners.tiers.instance import SparseInstance, servers_of
    from wiresum.predict.sparse import SparseNetwork
    from wiresum.sparse.counts import Counts
    from wiresum.sparse.spec import parse

    if rows.trace is None:
        raise PlanError(f"{planner} places rows of a sparse model; say which ones are touched with --trace")
    network = SparseNetwork(topology, servers_of(topology, beside=rows.beside))
    drawn = parse(rows.trace)
    if rows.tables:
        drawn.adopt(Tables.read(rows.tables))
    with err().status(rows.trace) as status:
        counts = Counts.of(drawn, len(network.workers), COUNTED_ROUNDS, progress=status.update)
        asked = SparseInstance(network, drawn.tables.tables, counts, dense_bytes, rows.replicas)
        part = place_rows(asked, planner)
    _write(part, drawn, output, rows.hot)
    if as_json:
        print(part.to_json(), end="")
    else:
        _show(part)
    if not part.worthwhile:
        raise NotWorthwhileError(part.reason)


def _write(part: SparsePart, trace: Trace, output: Path | None, hot: Path | None) -> None:
    from wiresum.sparse.hot import hot_map

    try:
        if output:
            part.write(output)
            note(f"{output}: the plan's sparse part")
        if hot:
            hot.write_text(hot_map(trace, part.replicated_rows, part.summed_rows), encoding="utf-8")
            note(f"{hot}: {part.replicated_rows + part.summed_rows:,} hot rows")
    except OSError as refused:
        raise TraceError(f"{refused.filename}: cannot be written ({refused}); give another path") from None


def _show(part: SparsePart) -> None:
    from rich.table import Table

    table = Table()
    for column in ("link", "MB", "seconds"):
        table.add_column(column, justify="left" if column == "link" else "right")
    for load in sorted(part.loads, key=lambda one: -one.seconds)[:FULLEST]:
        table.add_row(f"{load.source} → {load.target}", f"{load.bytes / 1e6:,.3f}", f"{load.seconds:.4f}")
    gains = part.gains
    out().print(part.planner)
    out().print(table)
    out().print(
        f"a round: {part.seconds:.4f} s, {part.updates_per_second:,.0f} updates/s; bottleneck {part.bottleneck}; "
        f"over push/pull {gains.push_pull:.2f} ×, Zebra's flow {gains.zebra:.2f} ×, sums of all rows {gains.sums:.2f} ×"
    )
