"""`wiresum predict`: how long a plan's all-reduce takes, and what holds it up."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from wiresum.commandline import options
from wiresum.commandline.console import note, out, print_json
from wiresum.commandline.groups import grouped
from wiresum.commandline.quantities import parse_size, parse_starts

if TYPE_CHECKING:
    from wiresum.predict import Prediction


@grouped
def predict(
    plan: options.PlanArgument,
    topology: options.TopologyOption,
    network: options.NetworkOptions,
    size: Annotated[str, typer.Option("--bytes", help="Size of the float32 gradient, as 25MB")] = "25MB",
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
    plot: options.PlotOption = None,
    as_json: options.JsonOption = False,
) -> None:
    """Predict the time of a plan's all-reduce, without running it: a fluid with fair shares of each link.

    Example: `wiresum predict plan.json --topology xagg --bytes 97MB --start W3=2`
    """
    from wiresum.plan.aggregation_plan import AggregationPlan
    from wiresum.predict import predict as predict_plan

    given, starts = AggregationPlan.read(plan), parse_starts(start or [])
    found = predict_plan(network.load(topology), given, parse_size(size), starts, upload_only, barrier=barrier)
    if plot:
        from wiresum.predict.plot import draw

        draw(found, plot)
        note(f"{plot}: rates over time")
    if as_json:
        print_json(found.to_json())
    else:
        show(found)


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
