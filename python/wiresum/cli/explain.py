"""`wiresum explain`: a plan or a schedule in plain words."""

from wiresum.commandline.options import PlanArgument


def explain(plan: PlanArgument) -> None:
    """Say in plain words who sums what in a plan, or who sends when in a schedule and whom it waits for.

    Example: `wiresum plan goat --planner goat -o plan.json && wiresum explain plan.json`
    """
    from wiresum.document import format_of
    from wiresum.errors import PlanError
    from wiresum.plan.aggregation_plan import AggregationPlan
    from wiresum.plan.explanation import explain as in_words
    from wiresum.plan.schedule import FORMAT, Schedule

    if format_of(plan, "plan", PlanError) == FORMAT:
        from wiresum.turns.explanation import explain as schedule_in_words

        print(schedule_in_words(Schedule.read_public(plan)))
    else:
        print(in_words(AggregationPlan.read_public(plan)))
