"""`wiresum plan`: a topology and a job become a plan file."""

from pathlib import Path
from typing import Annotated

import typer

from wiresum.cli import options
from wiresum.cli.console import note
from wiresum.cli.options import load_topology, place_job
from wiresum.plan.aggregation_plan import Engine


def plan(
    topology: options.TopologyArgument,
    workers: options.WorkersOption = None,
    rate: options.RateOption = None,
    scale: options.ScaleOption = None,
    policy: options.PolicyOption = "pool",
    lanes: options.LanesOption = "int32-le",
    codec: options.CodecOption = "block",
    window: options.WindowOption = options.DEFAULT_WINDOW,
    slots: options.SlotsOption = None,
    gradient: options.GradientOption = options.DEFAULT_GRADIENT,
    mtu: options.MtuOption = options.DEFAULT_MTU_BYTES,
    planner: options.PlannerOption = "direct",
    engine: Annotated[Engine, typer.Option(help="What runs the aggregators")] = "xdp",
    job_id: Annotated[int, typer.Option("--job", help="Number of the job on its aggregators")] = 1,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="File [default: standard output]")] = None,
    as_json: options.JsonOption = False,
) -> None:
    """Place a job on a topology: which node sums what.

    Example: `wiresum plan xagg --policy cache -o plan.json`
    """
    network = load_topology(topology, workers=workers, rate=rate, scale=scale)
    made = place_job(
        network, planner, engine, gradient,
        id=job_id, policy=policy, lanes=lanes, codec=codec, window=window, slots=slots, mtu_bytes=mtu,
    )  # fmt: skip
    if output:
        made.write(output)
        note(f"{output}: {len(made.workers)} workers, {len(made.nodes)} aggregators")
    if as_json or not output:
        print(made.to_json(), end="")
