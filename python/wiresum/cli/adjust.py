"""`wiresum adjust`: a plan follows failures and load."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from wiresum.commandline import options
from wiresum.commandline.console import note, print_json
from wiresum.commandline.groups import grouped
from wiresum.commandline.quantities import parse_seconds
from wiresum.errors import PlanError

if TYPE_CHECKING:
    from wiresum.adjust import Adjustment
    from wiresum.plan.aggregation_plan import AggregationPlan
    from wiresum.topology.model import Topology


@grouped
def adjust(
    plan: Annotated[
        Path, typer.Argument(metavar="PLAN_OR_SCHEDULE", help="Plan file, or a schedule that is carried out")
    ],
    topology: Annotated[str, typer.Option("--topology", "-t", help="Network as it is now: a name or a file")],
    network: options.NetworkOptions,
    against: Annotated[
        str | None,
        typer.Option("--against", help="Planner to compare with: what planning anew would gain, and how much moves"),
    ] = None,
    at: Annotated[
        str, typer.Option("--at", help="Time since the start of the schedule; jobs that have started by then go on")
    ] = "0s",
    output: options.OutputOption = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print what moved as one JSON object, instead of the plan")
    ] = False,
) -> None:
    """Replan after a failure or overload, between two rounds and with few changes.

    The topology says how the network is now: which nodes and links are left, memory in use, idle cores, rates. Workers
    join again with the new plan.

    A schedule is adjusted to ports, fibres and nodes that have failed: the new one counts from now on, jobs that have
    begun go on, and those to come take other ports, or wait for them.

    Example: `wiresum adjust plan.json --topology now.json --against auto -o next.json`
    """
    from wiresum.adjust import adjust as adjust_plan
    from wiresum.document import format_of
    from wiresum.plan.aggregation_plan import AggregationPlan
    from wiresum.plan.schedule import FORMAT

    if format_of(plan, "plan", PlanError) == FORMAT:
        if against:
            raise typer.BadParameter("a schedule is compared with nothing; leave it out", param_hint="--against")
        return _adjust_schedule(plan, network.load(topology), parse_seconds(at), output, as_json=as_json)
    before, there = (AggregationPlan.read if output else AggregationPlan.read_public)(plan), network.load(topology)
    adjusted = adjust_plan(before, there)
    for line in [*adjusted.reasons, *map(str, adjusted.moves)] or ["nothing moves"]:
        note(line)
    if against:
        note(_against(against, there, before, adjusted))
    if output:
        adjusted.plan.write(output)
    if as_json:
        moves = [{"child": move.child, "before": move.before, "after": move.after} for move in adjusted.moves]
        print_json({"changed": bool(moves), "reasons": list(adjusted.reasons), "moves": moves})
    elif not output:
        print(adjusted.plan.without_secret().to_json(), end="")
    return None


def _adjust_schedule(file: Path, now: Topology, at_s: float, output: Path | None, *, as_json: bool) -> None:
    from wiresum.plan.schedule import Schedule
    from wiresum.turns.adjustment import adjust_schedule

    adjusted = adjust_schedule((Schedule.read if output else Schedule.read_public)(file), now, at_s)
    for line in adjusted.reasons or ["nothing changes"]:
        note(line)
    if output:
        adjusted.schedule.write(output)
    if as_json:
        changed = bool(adjusted.reasons)
        print_json({"changed": changed, "reasons": list(adjusted.reasons), "given_up": list(adjusted.given_up)})
    elif not output:
        print(adjusted.schedule.with_secrets(None).to_json(), end="")


def _against(planner: str, network: Topology, before: AggregationPlan, adjusted: Adjustment) -> str:
    """The adjusted plan beside a new one."""
    from wiresum.adjust.anew import anew

    other = anew(before, adjusted, network, planner)
    return (
        f"adjusted: {other.kept_seconds:.4g} s for 100 MB, {len(adjusted.moves)} moves; "
        f"anew by {planner}: {other.new_seconds:.4g} s, {other.new_moves} moves"
    )
