"""A plan with another tree for some of its streams."""

from __future__ import annotations

from collections.abc import Sequence

from wiresum.plan.aggregation_plan import AggregationPlan, TreeNode
from wiresum.plan.options import PlanOptions
from wiresum.plan.placement import Parents, numbered_tree, plan_node
from wiresum.plan.topology import Topology


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
        sub_model.model_copy(update={"tree": changed}) if sub_model.tree == tree else sub_model
        for sub_model in plan.sub_models
    ]
    used = {entry.node for stream in streams for entry in stream.tree}
    kept = [node for node in nodes if node.id in used]
    return AggregationPlan.build(**{**dict(plan), "nodes": kept, "sub_models": streams})
