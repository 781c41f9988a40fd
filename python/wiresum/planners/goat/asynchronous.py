"""GOAT's placement with rounds that do not wait for everyone: `goat-async` (GOAT §V, Alg. 2) and its rival `ksgd`."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from wiresum.errors import PlanError
from wiresum.plan.aggregation_plan import AggregationPlan
from wiresum.plan.assignment import Instance, as_plan
from wiresum.plan.job import Job
from wiresum.plan.options import PlanOptions
from wiresum.planners.goat.exact import goat
from wiresum.planners.participation import Choice, Convergence, choose_goat_async, choose_ksgd, with_rounds
from wiresum.topology.model import Topology

Rule = Callable[[Sequence[float], Convergence], Choice]


def goat_async(topology: Topology, job: Job, options: PlanOptions) -> AggregationPlan:
    """GOAT's placement, and the number of workers a round by its Alg. 2: late gradients count in a later round.

    Args:
        topology: with a parameter server and switches that sum.
        job: what is placed.
        options: `evaluation` has the workers' intervals, `convergence` the training's constants.

    Raises:
        PlanError: one of these is absent, no number of workers reaches the target, or GOAT finds no place.
    """
    return _plan("goat-async", choose_goat_async, topology, job, options)


def ksgd(topology: Topology, job: Job, options: PlanOptions) -> AggregationPlan:
    """The same placement, and the number of workers that is best if late gradients are discarded (K-SGD).

    Raises:
        PlanError: as `goat_async`.
    """
    return _plan("ksgd", choose_ksgd, topology, job, options)


def _plan(name: str, rule: Rule, topology: Topology, job: Job, options: PlanOptions) -> AggregationPlan:
    if options.evaluation is None or options.convergence is None:
        raise PlanError(
            f"{name} chooses the workers of a round by their times and the training's constants: give an evaluation "
            "(`--evaluation`) and a convergence (`--convergence loss_gap=…,variance=…,target=…`)"
        )
    assignment = goat(Instance.of(topology, job), options)
    made = as_plan(name, assignment, options)
    evaluated = options.evaluation.of([worker.name for worker in made.workers])
    intervals = [one.round_seconds for one in evaluated]
    choice = rule(intervals, options.convergence)
    partial = with_rounds(made, choice.k, intervals)
    return partial.model_copy(update={"planner": f"{made.planner}; {choice}"})
