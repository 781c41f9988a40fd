"""The links that a plan names for its trees' edges, as predictions, costs and simulations take them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from wiresum.errors import PlanError
from wiresum.plan.aggregation_plan import AggregationPlan, PlanStream
from wiresum.plan.members import Child, WorkerChild
from wiresum.topology.model import Topology
from wiresum.topology.paths import Capacity

Edge = tuple[str, str]
"""A child and its parent, by name."""


def links_of(plan: AggregationPlan, stream: PlanStream) -> dict[Edge, list[str]]:
    """Ids of the links of each edge that has a way, from the child on; results take the same links back."""
    names = {node.id: node.name for node in plan.nodes}
    return {(name_of(plan, leg.child), names[leg.parent]): leg.links for leg in stream.legs if leg.links}


def name_of(plan: AggregationPlan, child: Child) -> str:
    """Name of a worker, or of a node."""
    return plan.workers[child.worker].name if isinstance(child, WorkerChild) else plan.node(child.node).name


class NamedWays:
    """Ways through a topology.

    Args:
        topology: with the links that plans name.
    """

    def __init__(self, topology: Topology) -> None:
        self._links = {link.id: link for link in topology.links}
        self._switches = {node.name for node in topology.nodes if node.kind == "switch"}

    def routes(self, links: Mapping[Edge, Sequence[str]]) -> dict[Edge, tuple[Capacity, ...]]:
        """Directions of links of each edge that has a way, and of the results' way back.

        Raises:
            PlanError: a way is none in this topology.
        """
        routes: dict[Edge, tuple[Capacity, ...]] = {}
        for (child, parent), names in links.items():
            up = self.directions(child, parent, names)
            routes[child, parent] = up
            routes[parent, child] = tuple(Capacity(one.link, one.target, one.source) for one in reversed(up))
        return routes

    def hold(self, child: str, parent: str, links: Sequence[str]) -> bool:
        """Whether a way leads where it is to."""
        try:
            self.directions(child, parent, links)
        except PlanError:
            return False
        return True

    def directions(self, child: str, parent: str, links: Sequence[str]) -> tuple[Capacity, ...]:
        """A way as predictions know it.

        Raises:
            PlanError: it names a link that is not there, breaks off, passes a node twice or one that does not forward,
                or ends elsewhere.
        """
        at, way = child, list[Capacity]()
        for name in links:
            link = self._links.get(name)
            if link is None or at not in {link.source, link.target}:
                what = "which the topology does not have" if link is None else f"which does not begin at {at}"
                raise PlanError(
                    f"the way from {child} to {parent} leads over link {name}, {what}; give its topology, or plan anew"
                )
            at = link.other_end(at)
            way.append(Capacity(name, link.other_end(at), at))
        passed = [one.target for one in way]
        is_open = self._switches.issuperset(passed[:-1]) and len({child, *passed}) > len(passed)
        if at != parent or not is_open:
            raise PlanError(
                f"the way from {child} to {parent} leads over {', '.join(passed)}: it must end there, over switches, "
                "each once; plan anew"
            )
        return tuple(way)
