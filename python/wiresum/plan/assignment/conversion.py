"""From an assignment to a plan that runners take."""

from __future__ import annotations

from collections import Counter

from wiresum.errors import PlanError
from wiresum.plan.aggregation_plan import AggregationPlan
from wiresum.plan.assignment.answer import Assignment
from wiresum.plan.assignment.routes import link_ids
from wiresum.plan.assignment.trees import SumTree, trees_of
from wiresum.plan.assignment.validation import require_memory, validate
from wiresum.plan.options import PlanOptions
from wiresum.plan.placement import Shard, ShardWays, assemble
from wiresum.wire import MAX_CONTRIBUTORS

MIN_WINDOW = 16
"""Fragments: a stream with less in flight waits for wake-ups rather than for its link."""


def as_plan(planner: str, assignment: Assignment, options: PlanOptions, *, is_draft: bool = False) -> AggregationPlan:
    """One stream for each distinct tree, with its sub-models' share of the bytes.

    A stream carries that share of every collective, whichever layers are in it: bytes per node and link are the
    assignment's, which layer is where is not. Every node keeps slots as the job's `policy` wants them; slots that
    belong to one sub-model alone are what simulations take from the assignment itself.

    Args:
        planner: who decided.
        assignment: with a topology whose nodes have addresses.
        options: the operator's choices.
        is_draft: it is to become a plan of switches, which name workers and not children.

    Raises:
        PlanError: the assignment breaks a rule of its own, a node has more children than a packet can name, or the data
            plane's slots do not fit a memory.
    """
    instance = validate(assignment).instance
    if assignment.allocation == "oversubscribed":
        require_memory(assignment)
    trees = trees_of(assignment)
    for tree in trees if not is_draft else []:
        _check_fan_in(tree)
    shares = [tree.bytes / instance.model_bytes for tree in trees]
    shards = [
        Shard(tree.parents, share, max(MIN_WINDOW, round(share * instance.job.window)), _ways(assignment))
        for tree, share in zip(trees, shares, strict=True)
    ]
    return assemble(
        f"{planner}: {assignment.solution}",
        instance.topology,
        instance.job,
        options,
        shards,
        solution=assignment.solution,
        is_draft=is_draft,
    )


def _ways(assignment: Assignment) -> ShardWays | None:
    """By child, the links of the ways that were chosen; with these, all sub-models have one tree."""
    routes, instance = assignment.routes, assignment.instance
    if routes is None:
        return None
    children = [instance.graph.names[worker] for worker in instance.workers]
    ways = dict(zip(children, routes.of_workers, strict=True))
    ways |= {instance.name(aggregator): path for aggregator, path in routes.of_aggregators.items()}
    return {child: link_ids(instance.topology, path) for child, path in ways.items()}


def _check_fan_in(tree: SumTree) -> None:
    children = Counter(parent for parent in tree.parents.values() if parent is not None)
    name, count = children.most_common(1)[0]
    if count > MAX_CONTRIBUTORS:
        raise PlanError(
            f"{name} would sum {count} children, and a server tells {MAX_CONTRIBUTORS} apart: put another level of "
            "nodes that sum between them, or let switches sum (`--switched`); `wiresum compare` takes it as it is"
        )
