"""`wiresum explain`: a plan in plain words."""

from wiresum.commandline.options import PlanArgument


def explain(plan: PlanArgument) -> None:
    """Say in plain words who sums what in a plan, and how good the planner says it is.

    Example: `wiresum plan goat --planner goat -o plan.json && wiresum explain plan.json`
    """
    from wiresum.plan.aggregation_plan import AggregationPlan
    from wiresum.plan.explanation import explain as in_words

    print(in_words(AggregationPlan.read(plan)))
