"""Where gradients are summed, as data: the job, the plan that every runner takes, and what planners make it with."""
