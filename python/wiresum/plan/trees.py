"""A plan with another tree for some of its streams."""

from __future__ import annotations

from collections.abc import Mapping

from wiresum.plan.aggregation_plan import AggregationPlan, PlanPlace, PlanStream, Tree
from wiresum.plan.options import PlanOptions
from wiresum.plan.placement import Parents, numbered_legs, parents_of, plan_node
from wiresum.plan.ways import NamedWays, links_of, name_of
from wiresum.topology.model import Topology


def with_tree(plan: AggregationPlan, topology: Topology, tree: Tree, parents: Parents) -> AggregationPlan:
    """The plan with these parents in the streams of a tree; nodes keep their numbers, and those without a place go.

    Args:
        plan: so far.
        topology: with the nodes that are new to the plan; they get the engine and port of its first node.
        tree: of the streams that change.
        parents: instead.

    Raises:
        PlanError: the parents are no tree, or a new node has no address.
    """
    ranks = [worker.name for worker in plan.workers]
    known = {node.name for node in plan.nodes}.union(ranks)
    like = PlanOptions(engine=plan.nodes[0].engine, port=plan.nodes[0].port)
    number = max(node.id for node in plan.nodes) + 1
    new = [name for name in parents if name not in known]
    added = [plan_node(topology, topology.node(name), number + index, like) for index, name in enumerate(new)]
    nodes = [*plan.nodes, *added]
    ids = {node.name: node.id for node in nodes}
    streams = [_with_parents(plan, stream, parents, ids) if stream.tree == tree else stream for stream in plan.streams]
    used = {place.node for stream in streams for place in stream.places}
    kept = [node for node in nodes if node.id in used]
    return AggregationPlan.build(**{**dict(plan), "nodes": kept, "streams": streams})


def _with_parents(plan: AggregationPlan, stream: PlanStream, parents: Parents, ids: Mapping[str, int]) -> PlanStream:
    """The stream over another tree. Children that keep their parents keep their ways; others take the network's own."""
    ranks = [worker.name for worker in plan.workers]
    ways = {child: links for (child, parent), links in links_of(plan, stream).items() if parents.get(child) == parent}
    legs = numbered_legs(parents, ids, ranks, ways)
    places = [PlanPlace(node=ids[name], slots=stream.slots) for name in parents if name not in ranks]
    return stream.model_copy(update={"places": places, "legs": legs})


def without_lost_ways(plan: AggregationPlan, topology: Topology) -> tuple[AggregationPlan, list[str]]:
    """The plan without ways over what is gone, and whose they were; the network's own take their place."""
    if plan.fabric is not None:
        return plan, []
    ways, lost, streams = NamedWays(topology), list[str](), list[PlanStream]()
    known = {node.name for node in topology.nodes}
    for stream in plan.streams:
        parents = parents_of(plan, stream)
        named = links_of(plan, stream).items()
        broken = {child for (child, parent), links in named if not ways.hold(child, parent, links)}
        legs = [
            leg.model_copy(update={"links": None}) if name_of(plan, leg.child) in broken else leg for leg in stream.legs
        ]
        streams.append(stream.model_copy(update={"legs": legs}))
        lost += [f"the way of {child} is gone" for child in sorted(broken) if parents[child] in known]
    return plan.model_copy(update={"streams": streams}), list(dict.fromkeys(lost))
