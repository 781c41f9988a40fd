"""A plan with another tree for some of its streams."""

from __future__ import annotations

from collections.abc import Sequence

from wiresum.plan.aggregation_plan import AggregationPlan, SubModel, TreeNode, TreeWay
from wiresum.plan.options import PlanOptions
from wiresum.plan.placement import Parents, numbered_tree, parents_of, plan_node
from wiresum.plan.ways import Ways, links_of, name_of
from wiresum.topology.model import Topology


def with_tree(plan: AggregationPlan, topology: Topology, tree: Sequence[TreeNode], parents: Parents) -> AggregationPlan:
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
    changed = numbered_tree(parents, {node.name: node.id for node in nodes}, ranks)
    streams = [
        sub_model.model_copy(update={"tree": changed, "ways": _kept(plan, sub_model, parents)})
        if sub_model.tree == tree
        else sub_model
        for sub_model in plan.sub_models
    ]
    used = {entry.node for stream in streams for entry in stream.tree}
    kept = [node for node in nodes if node.id in used]
    return AggregationPlan.build(**{**dict(plan), "nodes": kept, "sub_models": streams})


def _kept(plan: AggregationPlan, sub_model: SubModel, parents: Parents) -> list[TreeWay] | None:
    """The ways of children that keep their parents; others take the network's own."""
    if sub_model.ways is None:
        return None
    before = parents_of(plan, sub_model)
    names = [name_of(plan, way.child) for way in sub_model.ways]
    stays = [name in parents and parents[name] == before[name] for name in names]
    return [way for way, stay in zip(sub_model.ways, stays, strict=True) if stay]


def without_lost_ways(plan: AggregationPlan, topology: Topology) -> tuple[AggregationPlan, list[str]]:
    """The plan without ways over what is gone, and whose they were; the network's own take their place."""
    if plan.fabric is not None:
        return plan, []
    ways, lost, streams = Ways(topology), list[str](), list[SubModel]()
    known = {node.name for node in topology.nodes}
    for sub_model in plan.sub_models:
        parents = parents_of(plan, sub_model)
        named = links_of(plan, sub_model).items()
        broken = {child for (child, parent), links in named if not ways.hold(child, parent, links)}
        kept = [way for way in sub_model.ways or [] if name_of(plan, way.child) not in broken]
        streams.append(sub_model.model_copy(update={"ways": kept}) if broken else sub_model)
        lost += [f"the way of {child} is gone" for child in sorted(broken) if parents[child] in known]
    return (plan.model_copy(update={"sub_models": streams}) if lost else plan), list(dict.fromkeys(lost))
