"""All-reduces over several aggregation servers; `solver` measures the planner alone."""
