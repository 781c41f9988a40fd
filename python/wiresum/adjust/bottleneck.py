"""How quick a plan could be at best without one of its servers: most need no closer look."""

from __future__ import annotations

from collections import Counter, defaultdict

from wiresum.plan.aggregation_plan import AggregationPlan
from wiresum.plan.ways import NamedWays
from wiresum.predict import streams
from wiresum.topology.model import Topology
from wiresum.topology.paths import Capacity, RoutedTopology


def relieved_seconds(plan: AggregationPlan, topology: Topology, gradient_bytes: int) -> dict[str, float]:
    """By server: what the busiest link or adder needs without all edges from and to it.

    No plan without the server that leaves everyone else where he is takes less. Takes O(edges × length of ways).
    """
    network = RoutedTopology(topology)
    load: Counter[Capacity] = Counter()
    of_server: dict[str, Counter[Capacity]] = defaultdict(Counter)
    ways = NamedWays(topology)
    for stream in streams(plan, gradient_bytes):
        size, routes = round(stream.wire_bytes), ways.routes(stream.links)
        for child, parent in stream.parents.items():
            if parent is not None:
                crossed = [*network.path(child, parent, routes), *network.path(parent, child, routes)]
                for capacity in crossed:
                    load[capacity] += size
                    of_server[child][capacity] += size
                    of_server[parent][capacity] += size
    seconds = sorted(((8 * size / network.capacities[one], one) for one, size in load.items()), reverse=True)
    return {node.name: _busiest_without(of_server[node.name], load, seconds) for node in plan.nodes}


def _busiest_without(own: Counter[Capacity], load: Counter[Capacity], seconds: list[tuple[float, Capacity]]) -> float:
    """The first that the server does not cross, or a larger one of those that it does."""
    rest = next((busy for busy, one in seconds if one not in own), 0.0)
    crossed = [busy * (1 - own[one] / load[one]) for busy, one in seconds if one in own]
    return max([rest, *crossed])
