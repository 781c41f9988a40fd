"""`wiresum plan`: a topology and a job become a plan file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from wiresum.cli.rows import RowOptions, plan_rows
from wiresum.commandline import options
from wiresum.commandline.console import note
from wiresum.commandline.groups import given, grouped
from wiresum.plan.choices import Engine, SwitchEngine, SwitchPolicy
from wiresum.planners import ROW_PLANNERS

if TYPE_CHECKING:
    from wiresum.plan.aggregation_plan import AggregationPlan
    from wiresum.topology.model import Topology

SwitchChoice = Literal["auto", SwitchPolicy]
"""What switches do with fragments; auto: what the planner's paper has, or suits its trees."""


@grouped
def plan(
    topology: options.TopologyArgument,
    network: options.ServerOptions,
    job: options.JobOptions,
    planner: options.PlannerOptions,
    division: options.ModelParts,
    rounds: options.RoundOptions,
    rows: RowOptions,
    model: Annotated[
        str | None, typer.Option("--model", help="Model whose parts are placed: a size, or a model's name")
    ] = None,
    switched: Annotated[
        SwitchChoice | None,
        typer.Option(
            "--switched", help="Make a plan for summing switches, with this slot policy [auto: the planner's]"
        ),
    ] = None,
    engine: Annotated[
        Engine | None, typer.Option(help="What runs the aggregators [default: xdp; for --switched, udp]")
    ] = None,
    job_id: Annotated[int, typer.Option("--job", help="Number of the job on its aggregators")] = 1,
    output: options.OutputOption = None,
    explain: Annotated[bool, typer.Option("--explain", help="Say why this plan, and its predicted time")] = False,
    plot: Annotated[
        Path | None, typer.Option("--plot", help="File for a picture of the network and its loads, as .png or .svg")
    ] = None,
    as_json: options.JsonOption = False,
) -> None:
    """Place a job on a topology: which node sums what.

    Example: `wiresum plan xagg --policy cache --planner xagg --explain -o plan.json`
    """
    from wiresum.plan.assignment.wiring import with_engine
    from wiresum.planners import plan as make_plan
    from wiresum.planners.fabrics import plan_switched

    there = network.load(topology)
    if planner.planner in ROW_PLANNERS:
        alone = {"--switched": switched, "--explain": explain, "--plot": plot}
        unheeded = [name for group in (planner, division, rounds) for name in given(group) if name != "--planner"]
        unheeded += [name for name, value in alone.items() if value]
        _refuse(unheeded, f"the planner {planner.planner} places rows and does not heed it; leave it out")
        dense_bytes = sum(part.bytes for part in division.of(model)) if model else 0
        dense, choices = job.job(id=job_id), planner.told(engine or "xdp")
        plan_rows(planner.planner, there, rows, dense, choices, dense_bytes, output, as_json=as_json)
        return
    _refuse(given(rows), f"the planner {planner.planner} places no rows; choose {' or '.join(ROW_PLANNERS)}")
    choices = planner.told(engine or "xdp")
    asked = job.job(id=job_id, sub_models=division.of(model) if model else None)
    if switched:
        policy = None if switched == "auto" else switched
        made = plan_switched(there.with_addresses(), asked, choices, planner.planner, policy)
        made = with_engine(made, switch_engine(engine))
    else:
        made = make_plan(there, asked, choices, planner.planner)
    made = rounds.applied(made, choices.evaluation)
    if explain:
        note(explanation(there, made, job.gradient_bytes))
    if plot:
        _draw(there, made, job.gradient_bytes, plot)
    if output:
        made.write(output)
        note(f"{output}: {len(made.workers)} workers, {len(made.nodes)} aggregators")
    if as_json or not output:
        print(made.without_secret().to_json(), end="")
    if not output:
        note("This plan has no secret. `-o FILE` writes the plan to FILE, and a secret to FILE.secret")


def _refuse(options: Sequence[str], why: str) -> None:
    """Options that would do nothing are refused.

    Raises:
        typer.BadParameter: one is given.
    """
    if options:
        raise typer.BadParameter(f"{options[0]}: {why}")


def switch_engine(engine: Engine | None) -> SwitchEngine:
    """What can run switches.

    Raises:
        typer.BadParameter: servers alone run on it.
    """
    if engine in (None, "udp"):
        return "udp"
    if engine == "xdp":
        return "xdp"
    raise typer.BadParameter(f"--engine {engine}: switches run in the kernel or in user space; choose xdp or udp")


def explanation(network: Topology, made: AggregationPlan, gradient_bytes: int) -> str:
    """The planner's reason, each node's children, and the predicted time of the largest collective."""
    from wiresum.plan.placement import parents_of
    from wiresum.predict import predict

    lines = [made.planner]
    for stream in (one for one in made.streams if one.role == "values"):
        parents = parents_of(made, stream)
        for name in dict.fromkeys(parent for parent in parents.values() if parent is not None):
            lines.append(f"{name} sums {', '.join(child for child in parents if parents[child] == name)}")
    found = predict(network, made, gradient_bytes)
    lines.append(
        f"{gradient_bytes / 1e6:g} MB: {found.seconds:.4f} s predicted; bottleneck {found.bottleneck.capacity}"
    )
    return "\n".join(lines)


def _draw(network: Topology, made: AggregationPlan, gradient_bytes: int, path: Path) -> None:
    from wiresum.plan.assignment import traffic_of_plan
    from wiresum.plan.assignment.plot import draw

    traffic = traffic_of_plan(network, made, gradient_bytes)
    draw(traffic, f"{made.planner.partition(':')[0]}: {traffic.total_bytes / 1e6:,.0f} MB on links", path)
    note(f"{path}: link loads and sums")
