"""One job over circuits: which ones are lit, and the trees, ways and shares over them, decided together.

Problem: an optical switch joins the ports of a job's units, and `route` finds the best trees over what is joined. With
n units of P ports there are nP/2 circuits at most, and a tree needs n - 1 of them, so no choice is faster than
nP/(2(n - 1)) circuits, twice what a ring has (Tutte, 1961; Nash-Williams, 1961). Ports that are spread evenly reach it
wherever hosts and adders let them; where ports differ, pairs of circuits exchange their ends while that is faster.

Complexity: a column generation for each choice of circuits that is tried, `MOST_TRIED` at most.
Guarantee: the answer's bound is that of every choice of circuits between the job's units.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, permutations

from wiresum.errors import PlanError, TopologyError
from wiresum.plan.aggregation_plan import AggregationPlan
from wiresum.plan.job import Job
from wiresum.plan.options import PlanOptions
from wiresum.plan.placement import participants
from wiresum.plan.schedule import FORMAT, Schedule
from wiresum.planners.joint.planner import Routed, route
from wiresum.topology.circuits import between, fibres, uniform
from wiresum.topology.model import Topology
from wiresum.topology.optical import Circuit

Pairs = Counter[frozenset[str]]
"""Number of circuits by the names of two units."""
PLANNER = "joint"
"""Who plans trees over the circuits."""
MOST_TRIED = 64
"""Choices of circuits: each asks for a column generation, and even ones are at the bound at once."""
AT_BOUND = 1 - 1e-6


@dataclass(frozen=True, eq=False)
class OverCircuits:
    """A job's trees, and the circuits under them.

    Attributes:
        circuits: that are lit.
        network: the packet network that they make.
        rate_bps: of the gradient, over all trees.
        bound_bps: that no choice of circuits between the job's units exceeds.
        tried: choices of circuits.
    """

    circuits: Sequence[Circuit]
    network: Topology
    rate_bps: float
    bound_bps: float
    tried: int


def over_circuits(topology: Topology, job: Job, options: PlanOptions) -> OverCircuits:
    """The circuits whose best trees are fastest.

    Args:
        topology: with optical switches, whose units sum.
        job: whose workers are in them.
        options: of the trees' planner.

    Raises:
        TopologyError: a worker is in no unit with ports.
        PlanError: no node that sums is reached by every worker.
    """
    ports = _ports(topology, job)
    bound = min(_light_bps(topology, ports), _hosts_bps(topology, job))
    pairs = _even(topology, ports)
    found, tried = _tried(topology, job, options, pairs), 1
    rate, is_better = _rate(found[1]), True
    while is_better and rate < bound * AT_BOUND and tried < MOST_TRIED:
        is_better = False
        for exchanged in _exchanges(pairs):
            if tried == MOST_TRIED:
                break
            tried += 1
            try:
                other = _tried(topology, job, options, exchanged)
            except PlanError:  # they join no longer all units
                continue
            if _rate(other[1]) * AT_BOUND > rate:
                found, rate, pairs, is_better = other, _rate(other[1]), exchanged, True
                break
    circuits, _ = found
    return OverCircuits(circuits, topology.with_circuits(circuits), rate, max(bound, rate), tried)


def as_schedule(made: OverCircuits, plan: AggregationPlan) -> Schedule:
    """A schedule of one interval without an end: the circuits, and a plan over their network."""
    interval = {"from_s": 0.0, "circuits": [one.model_dump() for one in made.circuits]}
    return Schedule.model_validate({"format": FORMAT, "intervals": [{**interval, "plans": {str(plan.job.id): plan}}]})


def _ports(topology: Topology, job: Job) -> dict[str, int]:
    """Ports of the units that have workers of the job."""
    count = Counter(fibre.unit for fibre in fibres(topology))
    both_ways = [ends for link in topology.links for ends in permutations((link.source, link.target))]
    names = {end: unit for unit, end in both_ways if unit in count}
    workers = [worker.name for worker in participants(topology, job)]
    dark = next((worker for worker in workers if worker not in names), None)
    if dark is not None:
        raise TopologyError(f"{dark} is in no unit with a port to an optical switch; give its switch fibres")
    return {unit: count[unit] for unit in dict.fromkeys(names[worker] for worker in workers)}


def _light_bps(topology: Topology, ports: Mapping[str, int]) -> float:
    """What trees get of all circuits between such units, each of which is in all trees."""
    if len(ports) == 1:
        return float("inf")
    fibre_bps = max(fibre.link.bandwidth_bps or float("inf") for fibre in fibres(topology))
    return fibre_bps * min(sum(ports.values()) // 2 / (len(ports) - 1), *ports.values())


def _hosts_bps(topology: Topology, job: Job) -> float:
    """What the slowest worker's links carry."""
    ends = {worker.name: 0.0 for worker in participants(topology, job)}
    for link in topology.links:
        for end in {link.source, link.target} & set(ends):
            ends[end] += link.bandwidth_bps or float("inf")
    return min(ends.values())


def _even(topology: Topology, ports: Mapping[str, int]) -> Pairs:
    """Circuits between a job's units, round and round to the next one, the second next and so on."""
    unit = {fibre.link.id: fibre.unit for fibre in fibres(topology)}
    return Counter(frozenset(unit[link] for link in one.links) for one in uniform(topology, ports))


def _exchanges(pairs: Pairs) -> Iterator[Pairs]:
    """Choices in which two circuits have exchanged an end."""
    for one, other in combinations(sorted(pairs, key=sorted), 2):
        if len(one | other) < len(one) + len(other):
            continue
        (a, b), (c, d) = sorted(one), sorted(other)
        for crossed in (((a, c), (b, d)), ((a, d), (b, c))):
            changed = pairs - Counter([one, other]) + Counter(frozenset(pair) for pair in crossed)
            yield Counter(changed)


def _tried(topology: Topology, job: Job, options: PlanOptions, pairs: Pairs) -> tuple[list[Circuit], Routed]:
    circuits = between(topology, pairs)
    return circuits, route(topology.with_circuits(circuits), job, options)


def _rate(routed: Routed) -> float:
    return float(routed.forest.rate * routed.named.unit_bps)
