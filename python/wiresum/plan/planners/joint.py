"""Where sums are made, over which ways, and how much of the gradient takes which tree: decided together."""

from __future__ import annotations

import time
from dataclasses import dataclass

from wiresum.plan.aggregation_plan import AggregationPlan, Policy, Solution, SolutionStatus
from wiresum.plan.assignment.cost import MAX_FLUID_FLOWS, Cost, bound_seconds, cost_of_traffic, routes_of
from wiresum.plan.assignment.traffic import Traffic, traffic_of_plan
from wiresum.plan.fabric import Fabric
from wiresum.plan.forest.solution import Forest
from wiresum.plan.infeasibility import NoTree
from wiresum.plan.job import Job
from wiresum.plan.joint.instance import RoutedTree
from wiresum.plan.joint.network import Network
from wiresum.plan.joint.solver import solve
from wiresum.plan.options import PlanOptions
from wiresum.plan.placement import Shard, assemble, participants
from wiresum.plan.planners.forest import MIN_WINDOW, OPTIMAL_GAP, grow, place
from wiresum.plan.predict import predict_trees
from wiresum.plan.topology import Topology

OBJECTIVE = "seconds of the busiest link or adder, sums and results"
ROUTED_SHARE = 0.6
"""Of the time limit, for trees with ways of their own; the rest is for those over the network's."""


@dataclass(frozen=True, eq=False)
class Routed:
    """A forest of routed trees, as found.

    Attributes:
        topology: of the network.
        network: where it stands.
        forest: its trees are `RoutedTree`s.
        gradient_bytes: of one worker.
        policy: of the job's slots.
        seconds: that it took to find.
    """

    topology: Topology
    network: Network
    forest: Forest
    gradient_bytes: int
    policy: Policy
    seconds: float

    @property
    def traffic(self) -> Traffic:
        """Its flows, over its own ways."""
        return self.network.traffic(self.forest, self.gradient_bytes)

    @property
    def cost(self) -> Cost:
        """What it costs the network; predicted where every two nodes have one way in all trees."""
        traffic = self.traffic
        ways = dict.fromkeys(zip(traffic.source, traffic.target, traffic.paths or (), strict=True))
        pairs = {(source, target) for source, target, _ in ways}
        is_small = 2 * len(traffic.bytes) <= MAX_FLUID_FLOWS
        predicted = self._predicted(traffic) if len(pairs) == len(ways) and is_small else None
        workers = sum(len(members) for members in self.network.groups)
        return cost_of_traffic(traffic, workers, self.gradient_bytes, predicted)

    def _predicted(self, traffic: Traffic) -> float:
        routes = routes_of(self.topology, traffic)
        trees = [
            (self.network.parents(tree), rate / self.forest.rate * self.gradient_bytes)
            for tree, rate in zip(self.forest.trees, self.forest.rates, strict=True)
            if isinstance(tree, RoutedTree)
        ]
        return predict_trees(self.topology, trees, policy=self.policy, routes=routes).seconds

    @property
    def solution(self) -> Solution:
        """How good it is."""
        bits, unit_bps = self.gradient_bytes * 8, self.network.unit_bps
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
    network = Network.of(topology, participants(topology, job), job)
    forest = solve(network.instance, options.time_limit_s - (time.monotonic() - began_s))
    if not forest.trees:
        raise NoTree(network.instance, network.servers).error(topology.name)
    size = sum(part.bytes for part in job.parts)
    return Routed(topology, network, forest, size, job.policy, time.monotonic() - began_s)


def joint(topology: Topology, job: Job, options: PlanOptions) -> AggregationPlan:
    """The plan of `route`'s trees, or of `forest`'s where the network's own ways make these quicker.

    A plan names no ways, so the network takes its shortest, shared evenly: what is chosen, and the value that the plan
    states, is by these. The bound is over all ways. Errors as for `route`.

    Example:
        >>> from wiresum.plan.topologies import servers
        >>> made = joint(servers(workers=4, servers=2).with_addresses(), Job(), PlanOptions())
        >>> [sub_model.share for sub_model in made.sub_models], made.solution.status
        ([0.0, 0.5, 0.5], 'optimal')
    """
    began_s = time.monotonic()
    routed = route(topology, job, options.model_copy(update={"time_limit_s": ROUTED_SHARE * options.time_limit_s}))
    made = _placed(routed, topology, job, options)
    seconds = {"its own": _carried_seconds(topology, made, routed.gradient_bytes)}
    left_s = options.time_limit_s - (time.monotonic() - began_s)
    if left_s > 0 and seconds["its own"] > routed.solution.value * (1 + OPTIMAL_GAP):
        grown = place(grow(topology, job, left_s), topology, job, options)
        seconds["forest's"] = _carried_seconds(topology, grown, routed.gradient_bytes)
        made = min((made, grown), key=lambda one: _carried_seconds(topology, one, routed.gradient_bytes))
    whose, value = min(seconds.items(), key=lambda one: one[1])
    note = (
        f"joint: {whose} trees, {value:.4g} s over the network's ways, {routed.solution.value:.4g} s over chosen ones"
    )
    solution = _carried(routed.solution, value, time.monotonic() - began_s)
    return made.model_copy(update={"planner": note, "solution": solution})


def _placed(routed: Routed, topology: Topology, job: Job, options: PlanOptions) -> AggregationPlan:
    cap = routed.network.instance.rate_cap or routed.forest.rate
    shards = [
        Shard(routed.network.parents(tree), rate / routed.forest.rate, max(MIN_WINDOW, round(job.window * rate / cap)))
        for tree, rate in zip(routed.forest.trees, routed.forest.rates, strict=True)
        if isinstance(tree, RoutedTree)
    ]
    return assemble("joint", topology, job, options, shards)


def _carried_seconds(topology: Topology, plan: AggregationPlan, gradient_bytes: int) -> float:
    """Of the busiest link or adder, over the network's shortest ways."""
    return bound_seconds(traffic_of_plan(Fabric.of(topology), plan, gradient_bytes))


def _carried(solution: Solution, value: float, seconds: float) -> Solution:
    """The solution with what the network's ways make of it."""
    gap = None if solution.bound is None else max(0.0, (value - solution.bound) / value)
    status = "optimal" if gap is not None and gap <= OPTIMAL_GAP else "feasible"
    return solution.model_copy(update={"value": value, "gap": gap, "status": status, "seconds": seconds})
