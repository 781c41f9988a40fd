"""Where sums are made, over which ways, and how much of the gradient takes which tree: decided together."""

from __future__ import annotations

import time
from dataclasses import dataclass

from wiresum.plan.aggregation_plan import AggregationPlan, PlanStream, Solution, SolutionStatus
from wiresum.plan.assignment.routes import link_ids
from wiresum.plan.assignment.traffic import Traffic, traffic_of_plan
from wiresum.plan.job import Job
from wiresum.plan.options import PlanOptions
from wiresum.plan.placement import Shard, assemble, participants
from wiresum.planners.forest.planner import MIN_WINDOW, OPTIMAL_GAP
from wiresum.planners.forest.solution import Forest
from wiresum.planners.infeasibility import NoTree
from wiresum.planners.joint.instance import RoutedTree
from wiresum.planners.joint.named_instance import NamedInstance
from wiresum.planners.joint.solver import solve
from wiresum.predict.cost import bound_seconds
from wiresum.topology.model import Topology

OBJECTIVE = "seconds of the busiest link or adder, sums and results"


@dataclass(frozen=True, eq=False)
class Routed:
    """A forest of routed trees, as found.

    Attributes:
        named: the instance, with names.
        forest: its trees are `RoutedTree`s.
        gradient_bytes: of one worker.
        seconds: that it took to find.
    """

    named: NamedInstance
    forest: Forest
    gradient_bytes: int
    seconds: float

    @property
    def traffic(self) -> Traffic:
        """Its flows, over its own ways."""
        return self.named.traffic(self.forest, self.gradient_bytes)

    @property
    def solution(self) -> Solution:
        """How good it is."""
        bits, unit_bps = self.gradient_bytes * 8, self.named.unit_bps
        value = bits / (self.forest.rate * unit_bps)
        bound = None if self.forest.bound is None else min(value, bits / (self.forest.bound * unit_bps))
        gap = None if bound is None else (value - bound) / value
        lost = self.forest.left_out / self.forest.rate
        status: SolutionStatus = "feasible" if gap is None or gap > OPTIMAL_GAP + lost else "optimal"
        return Solution(
            solver="column generation (HiGHS)",
            status=status,
            objective=OBJECTIVE,
            value=value,
            bound=bound,
            gap=gap,
            seconds=self.seconds,
        )


def route(topology: Topology, job: Job, options: PlanOptions) -> Routed:
    """Trees, ways and shares with the least time of the busiest link or adder.

    Every node that sums may be in a tree, switch or server, in as many levels as pay, and the root may be any of them.
    Every edge of a tree takes any way through switches; the gradient is split over trees at will. So no answer of
    `goat`, `ingo`, `xagg` or `forest` has a busiest link that is done sooner, if slots are used again; under `cache` a
    node holds its part of the gradient whole. Solved by column generation, exactly unless time ends it.

    Raises:
        PlanError: no node that sums is reached by every worker, or none has the memory.
        SupportError: the solver is not installed.
    """
    began_s = time.monotonic()
    named = NamedInstance.of(topology, participants(topology, job), job)
    forest = solve(named.instance, options.time_limit_s - (time.monotonic() - began_s))
    if not forest.trees:
        raise NoTree(named.instance, named.servers).error(topology.name)
    size = sum(part.bytes for part in job.parts)
    return Routed(named, forest, size, time.monotonic() - began_s)


def joint(topology: Topology, job: Job, options: PlanOptions) -> AggregationPlan:
    """The plan of `route`'s trees, which names their ways. Errors as for `route`.

    Its value is by these ways; `planner` also says what the network's own would make of the trees, for networks that
    cannot be told.

    Example:
        >>> from wiresum.topology.generators.servers import servers
        >>> made = joint(servers(workers=4, servers=2).with_addresses(), Job(), PlanOptions())
        >>> [stream.share for stream in made.streams], made.solution.status
        ([0.0, 0.5, 0.5], 'optimal')
    """
    routed = route(topology, job, options)
    made = _placed(routed, topology, job, options)
    own = bound_seconds(traffic_of_plan(topology, _untold(made), routed.gradient_bytes))
    note = f"joint: {routed.solution.value:.4g} s over the ways that it names, {own:.4g} s over the network's own"
    return made.model_copy(update={"planner": note})


def _placed(routed: Routed, topology: Topology, job: Job, options: PlanOptions) -> AggregationPlan:
    named = routed.named
    names, cap = named.graph.names, named.instance.rate_cap or routed.forest.rate
    shards = [
        Shard(
            named.parents(tree),
            rate / routed.forest.rate,
            max(MIN_WINDOW, round(job.window * rate / cap)),
            {names[child]: link_ids(topology, path) for child, _, path in named.edges(tree)},
        )
        for tree, rate in zip(routed.forest.trees, routed.forest.rates, strict=True)
        if isinstance(tree, RoutedTree)
    ]
    return assemble("joint", topology, job, options, shards, solution=routed.solution)


def _untold(plan: AggregationPlan) -> AggregationPlan:
    """The same trees where the network chooses the ways."""

    def untold(stream: PlanStream) -> PlanStream:
        return stream.model_copy(update={"legs": [leg.model_copy(update={"links": None}) for leg in stream.legs]})

    return plan.model_copy(update={"streams": [untold(stream) for stream in plan.streams]})
