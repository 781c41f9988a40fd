"""`wiresum adjust`: a plan follows failures and load."""

from pathlib import Path
from typing import Annotated

import typer

from wiresum.adjust.adjustment import Adjustment
from wiresum.adjust.adjustment import adjust as adjust_plan
from wiresum.adjust.anew import anew
from wiresum.cli import options
from wiresum.cli.console import note, print_json
from wiresum.cli.options import load_topology
from wiresum.plan.aggregation_plan import AggregationPlan
from wiresum.topology.model import Topology


def adjust(
    plan: Annotated[Path, typer.Argument(metavar="PLAN", help="The plan so far")],
    topology: Annotated[str, typer.Option("--topology", "-t", help="What there is now: a name or a file")],
    workers: options.WorkersOption = None,
    rate: options.RateOption = None,
    scale: options.ScaleOption = None,
    against: Annotated[
        str | None, typer.Option("--against", help="A planner: say what planning anew with it would gain, and move")
    ] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="File [default: standard output]")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print what moved as one JSON object, not the plan")] = False,
) -> None:
    """Take failed and overloaded servers out of a plan between two rounds, and move as little as possible.

    The topology says how the network is now: which nodes and links are left, memory in use, idle cores, rates. Workers
    join again with the new plan.

    Example: `wiresum adjust plan.json --topology now.json --against auto -o next.json`
    """
    network = load_topology(topology, workers=workers, rate=rate, scale=scale)
    before = AggregationPlan.read(plan)
    adjusted = adjust_plan(before, network)
    for line in [*adjusted.reasons, *map(str, adjusted.moves)] or ["nothing moves"]:
        note(line)
    if against:
        note(_against(against, network, before, adjusted))
    if output:
        adjusted.plan.write(output)
    if as_json:
        moves = [{"child": move.child, "before": move.before, "after": move.after} for move in adjusted.moves]
        print_json({"changed": bool(moves), "reasons": list(adjusted.reasons), "moves": moves})
    elif not output:
        print(adjusted.plan.to_json(), end="")


def _against(planner: str, network: Topology, before: AggregationPlan, adjusted: Adjustment) -> str:
    """The adjusted plan beside a new one."""
    other = anew(before, adjusted, network, planner)
    return (
        f"adjusted: {other.kept_seconds:.4g} s for 100 MB, {len(adjusted.moves)} moves; "
        f"anew by {planner}: {other.new_seconds:.4g} s, {other.new_moves} moves"
    )
