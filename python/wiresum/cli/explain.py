"""`wiresum explain`: a plan in plain words."""

from pathlib import Path
from typing import Annotated

import typer

from wiresum.plan.aggregation_plan import AggregationPlan
from wiresum.plan.explanation import explain as in_words


def explain(
    plan: Annotated[Path, typer.Argument(metavar="PLAN", help="Plan file, as `wiresum plan` writes it")],
) -> None:
    """Say in plain words who sums what in a plan, and how good the planner says it is.

    Example: `wiresum plan goat --planner goat -o plan.json && wiresum explain plan.json`
    """
    print(in_words(AggregationPlan.read(plan)))
