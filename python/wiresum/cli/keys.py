"""`wiresum keys`: what a node needs of a job's secret."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from wiresum.commandline.console import note
from wiresum.commandline.options import PlanArgument, SecretOption


def keys(
    plan: PlanArgument,
    node: Annotated[int, typer.Option("--node", help="Node that the keys are for")],
    secret: SecretOption = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="File for the keys [default: standard output]")
    ] = None,
) -> None:
    """Write the keys of one node, which its daemon takes in place of the job's secret.

    Example: `wiresum keys plan.json --node 1 -o node-1.secret`
    """
    from wiresum.document import write_text
    from wiresum.errors import PlanError
    from wiresum.plan.aggregation_plan import AggregationPlan

    made = AggregationPlan.read(plan, secret).keys_of(node)
    if output is None:
        print(made)
        return
    write_text(output, made + "\n", "keys", PlanError, is_secret=True)
    note(f"{output} has the keys of node {node}: bring it to that node's host as {plan.name}.secret, beside the plan")
