"""`wiresum adjust`: a plan follows failures and load."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from wiresum.commandline import options
from wiresum.commandline.console import note, print_json
from wiresum.commandline.groups import grouped

if TYPE_CHECKING:
    from wiresum.adjust import Adjustment
    from wiresum.plan.aggregation_plan import AggregationPlan
    from wiresum.topology.model import Topology


@grouped
def adjust(
    plan: options.PlanArgument,
    topology: Annotated[str, typer.Option("--topology", "-t", help="Network as it is now: a name or a file")],
    network: options.NetworkOptions,
    against: Annotated[
        str | None,
        typer.Option("--against", help="Planner to compare with: what planning anew would gain, and how much moves"),
    ] = None,
    output: options.OutputOption = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print what moved as one JSON object, instead of the plan")
    ] = False,
) -> None:
    """Take failed and overloaded servers out of a plan between two rounds, and move as little as possible.

    The topology says how the network is now: which nodes and links are left, memory in use, idle cores, rates. Workers
    join again with the new plan.

    Example: `wiresum adjust plan.json --topology now.json --against auto -o next.json`
    """
    from wiresum.adjust import adjust as adjust_plan
    from wiresum.plan.aggregation_plan import AggregationPlan

    before, there = AggregationPlan.read(plan), network.load(topology)
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


def _against(planner: str, network: Topology, before: AggregationPlan, adjusted: Adjustment) -> str:
    """The adjusted plan beside a new one."""
    from wiresum.adjust.anew import anew

    other = anew(before, adjusted, network, planner)
    return (
        f"adjusted: {other.kept_seconds:.4g} s for 100 MB, {len(adjusted.moves)} moves; "
        f"anew by {planner}: {other.new_seconds:.4g} s, {other.new_moves} moves"
    )
