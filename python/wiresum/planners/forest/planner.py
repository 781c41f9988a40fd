"""Several trees, each with a share of the gradient, so that every server's links are full."""

from dataclasses import dataclass

from wiresum.plan.aggregation_plan import AggregationPlan, Solution
from wiresum.plan.job import Job
from wiresum.plan.options import PlanOptions
from wiresum.plan.placement import Shard, assemble, participants
from wiresum.planners.forest.named_instance import NamedInstance, named_instance
from wiresum.planners.forest.solution import Forest
from wiresum.planners.forest.solver import solve
from wiresum.planners.infeasibility import NoTree
from wiresum.topology.model import Topology

MIN_WINDOW = 16
"""Fragments: a stream with less in flight waits for wake-ups rather than for its link."""


@dataclass(frozen=True)
class Grown:
    """A forest, and the instance that it answers."""

    named: NamedInstance
    forest: Forest

    @property
    def rate_bps(self) -> float:
        """bit/s, headers included, at which every worker sends, and receives."""
        return self.forest.rate * self.named.unit_bps

    @property
    def bound_bps(self) -> float | None:
        """No forest on this network is faster; None if none was proven in time."""
        return None if self.forest.bound is None else self.forest.bound * self.named.unit_bps

    @property
    def optimal(self) -> bool:
        """Whether the rate is the bound, but for trees that were left out on purpose."""
        lost = self.forest.left_out
        return self.forest.bound is not None and self.forest.rate + lost >= self.forest.bound * (1 - OPTIMAL_GAP)

    def __str__(self) -> str:
        """Rate, bound and gap, for people."""
        count = len(self.forest.trees)
        what = f"{count} tree{'s' * (count > 1)}, {self.rate_bps / 1e6:.6g} Mbit/s at every worker"
        if self.bound_bps is None or self.forest.gap is None:
            return f"{what}, no bound proven in time"
        proof = "optimal" if self.optimal else f"bound {self.bound_bps / 1e6:.6g} Mbit/s, gap {self.forest.gap:.2%}"
        left = (
            f", {self.forest.left_out / self.forest.rate:.2%} left out in trees too many or too small"
            if self.forest.left_out
            else ""
        )
        return f"{what}, {proof}{left}"


OPTIMAL_GAP = 1e-5
"""Rates that agree this closely are the same in packets."""


def forest(topology: Topology, job: Job, options: PlanOptions) -> AggregationPlan:
    """Spreads the gradient over trees so that the workers' common sending rate is the highest there is.

    The rate respects the bandwidth of every link and direction, every server's aggregation rate, and, under `cache`,
    its memory. `sums_at` is not looked at. Solved by column generation, exactly unless `options.time_limit_s` ends it;
    the plan's `planner` says what was reached, and the bound. If it ends in time, the same input gives the same plan.

    A shard's window is the job's, scaled by its part of a worker's link, so that all together fill it once.

    Raises:
        PlanError: no server that every worker reaches, or no room in their memory.
        SupportError: the solver is not installed.

    Example:
        >>> from wiresum.topology.generators.servers import servers
        >>> made = forest(servers(workers=4, servers=2).with_addresses(), Job(), PlanOptions())
        >>> [stream.share for stream in made.streams]
        [0.0, 0.5, 0.5]
    """
    return place(grow(topology, job, options.time_limit_s), topology, job, options)


def place(grown: Grown, topology: Topology, job: Job, options: PlanOptions) -> AggregationPlan:
    """The plan of a forest."""
    cap = grown.named.instance.rate_cap or grown.forest.rate
    shards = [
        Shard(grown.named.parents(tree), rate / grown.forest.rate, max(MIN_WINDOW, round(job.window * rate / cap)))
        for tree, rate in zip(grown.forest.trees, grown.forest.rates, strict=True)
    ]
    solution = _solution(grown, sum(part.bytes for part in job.parts) * 8)
    return assemble(f"forest: {grown}", topology, job, options, shards, solution=solution)


def _solution(grown: Grown, bits: int) -> Solution:
    value = bits / grown.rate_bps
    bound = None if grown.bound_bps is None else min(value, bits / grown.bound_bps)
    return Solution(
        solver="column generation (HiGHS)",
        status="optimal" if grown.optimal else "feasible",
        objective="seconds of the busiest link or adder, without headers",
        value=value,
        bound=bound,
        gap=None if bound is None else (value - bound) / value,
    )


def grow(topology: Topology, job: Job, time_limit_s: float) -> Grown:
    """The forest itself, for those who want its figures; errors as for `forest`."""
    found = named_instance(topology, participants(topology, job), job)
    forest = solve(found.instance, time_limit_s)
    if not forest.trees:
        raise NoTree(found.instance, found.servers).error(topology.name)
    return Grown(found, forest)
