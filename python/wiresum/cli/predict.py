"""`wiresum predict`: how long a plan's all-reduce takes, and what holds it up."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from wiresum.commandline import options
from wiresum.commandline.console import err, note, out, print_json
from wiresum.commandline.groups import grouped
from wiresum.commandline.quantities import parse_size, parse_starts

if TYPE_CHECKING:
    from wiresum.plan.aggregation_plan import AggregationPlan
    from wiresum.predict import Prediction
    from wiresum.topology.model import Topology

DEFAULT_SIZE = "25MB"


@grouped
def predict(
    plan: options.PlanArgument,
    topology: options.TopologyOption,
    network: options.NetworkOptions,
    size: Annotated[
        str | None,
        typer.Option("--bytes", help="Size of the dense float32 gradient [default: 25MB; none beside tables]"),
    ] = None,
    start: Annotated[
        list[str] | None, typer.Option("--start", help="WORKER=SECONDS until it has its gradient; repeatable")
    ] = None,
    upload_only: Annotated[
        bool, typer.Option("--upload-only", help="Stop counting when the root has the sum, as XAgg does")
    ] = False,
    barrier: Annotated[
        bool | None,
        typer.Option(
            "--barrier/--no-barrier", help="Let values wait for the last start [default: by codec, exponents]"
        ),
    ] = None,
    trace: Annotated[
        str | None, typer.Option("--trace", help="Trace whose rows a plan with tables carries [default: the plan's]")
    ] = None,
    plot: options.PlotOption = None,
    as_json: options.JsonOption = False,
) -> None:
    """Predict the time of a plan's all-reduce, without running it: a fluid with fair shares of each link.

    A round of a plan with tables is predicted by the fullest direction of any link, --bytes of dense gradient counted.

    Example: `wiresum predict plan.json --topology xagg --bytes 97MB --start W3=2`
    """
    from wiresum.plan.aggregation_plan import AggregationPlan
    from wiresum.predict import predict as predict_plan

    given, starts = AggregationPlan.read(plan), parse_starts(start or [])
    if given.sparse is not None:
        alone = {"--start": start, "--upload-only": upload_only, "--barrier": barrier is not None, "--plot": plot}
        unheeded = next((name for name, value in alone.items() if value), None)
        if unheeded:
            raise typer.BadParameter(f"{unheeded}: a round with tables is predicted without it; leave it out")
        dense_bytes = parse_size(size) if size else 0
        _predict_rows(network.load(topology), given, dense_bytes, trace, as_json=as_json)
        return
    if trace:
        raise typer.BadParameter(f"--trace: plan {plan} has no tables; leave it out")
    found = predict_plan(
        network.load(topology), given, parse_size(size or DEFAULT_SIZE), starts, upload_only, barrier=barrier
    )
    if plot:
        from wiresum.predict.plot import draw

        draw(found, plot)
        note(f"{plot}: rates over time")
    if as_json:
        print_json(found.to_json())
    else:
        show(found)


def _predict_rows(
    network: Topology, plan: AggregationPlan, dense_bytes: int, trace: str | None, *, as_json: bool
) -> None:
    from wiresum.cli.rows import show as show_rows
    from wiresum.planners.row_plans import predicted

    with err().status("counting rows") as status:
        part = predicted(network, plan, dense_bytes, trace, status.update)
    if as_json:
        print(part.to_json(), end="")
    else:
        show_rows(part)


def show(found: Prediction) -> None:
    """The time, what holds it up, and the load of every link."""
    from rich.table import Table

    from wiresum.topology.paths import UNLIMITED_BPS

    table = Table()
    for column in ("link", "Mbit/s", "MB on the wire", "busy"):
        table.add_column(column, justify="left" if column == "link" else "right")
    for load in found.links:
        rate = "unlimited" if load.bandwidth_bps == UNLIMITED_BPS else f"{load.bandwidth_bps / 1e6:,.0f}"
        table.add_row(str(load.capacity), rate, f"{load.wire_bytes / 1e6:,.1f}", f"{100 * load.utilisation:.0f} %")
    out().print(table)
    out().print(f"all-reduce: {found.seconds:.4f} s; the root has the sum at {found.root_done_seconds:.4f} s")
    out().print(f"bottleneck: {found.bottleneck.capacity}, {found.bottleneck.busy_seconds:.4f} s on its own")
