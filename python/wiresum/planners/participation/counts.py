"""From workers that take part to counts at nodes: in plans, and in assignments (GOAT, Eq. (20))."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from wiresum.errors import PlanError
from wiresum.plan.aggregation_plan import AggregationPlan, PlanStream, RoundCount, Rounds, WorkerChild
from wiresum.plan.assignment import Assignment
from wiresum.plan.choices import DEFAULT_MOST_MISSED
from wiresum.topology.graph import Bools, Ints


def contributions(assignment: Assignment, takes_part: Bools) -> Ints:
    """Gradients that each aggregator waits for: n_{g,s} = Σ_w y_{w,g}^s z_w.

    The paper's K^s sums this over sub-models too, which counts pieces; a switch needs it for each of them.

    Args:
        assignment: y, who sums whose what.
        takes_part: (workers,) z.

    Returns:
        (aggregators, sub-models), without the sums of other aggregators.
    """
    count = np.zeros((len(assignment.instance.aggregators), assignment.target.shape[1]), dtype=np.int64)
    target = assignment.target[takes_part]
    np.add.at(count, (target, np.broadcast_to(np.arange(target.shape[1]), target.shape)), 1)
    return count


def with_rounds(
    plan: AggregationPlan,
    k: int,
    intervals: Sequence[float] | None = None,
    most_missed: int = DEFAULT_MOST_MISSED,
) -> AggregationPlan:
    """A plan whose rounds go on without late workers.

    Every server of the exponents' tree counts its own children: all that are nodes, and of its workers those that
    belong to the K fastest, at least one. Without intervals each gets its part of K in proportion to its workers. Where
    switches sum, the root counts K workers.

    Args:
        plan: any.
        k: K, workers that a round takes at least.
        intervals: seconds that each worker takes for a gradient, in rank order.
        most_missed: most rounds in a row that go on without the same worker.

    Raises:
        PlanError: K is not possible, or the plan's values do not wait for the agreement on exponents.
    """
    stream = next(one for one in plan.streams if one.role == "exponents")
    ranks = {place.node: _ranks(stream, place.node) for place in stream.places}
    nodes = [node for node, below in ranks.items() if below]
    workers = [ranks[node] for node in nodes]
    total = len(plan.workers)
    if not 1 <= k <= total:
        raise PlanError(f"a round takes 1 to {total} workers of this plan, not {k}; change the number of participants")
    if plan.fabric is not None:
        return _with(plan, [RoundCount(node=stream.root, k=k)], most_missed)
    if intervals is None:
        present = proportional_counts([len(ranks) for ranks in workers], k)
    else:
        fastest = set(np.argsort(np.asarray(intervals), kind="stable")[:k].tolist())
        present = [max(1, len(fastest.intersection(ranks))) for ranks in workers]
    counts = [
        RoundCount(node=node, k=count + len(stream.children(node)) - len(below))
        for node, below, count in zip(nodes, workers, present, strict=True)
    ]
    return _with(plan, counts, most_missed)


def _with(plan: AggregationPlan, counts: list[RoundCount], most_missed: int) -> AggregationPlan:
    document = plan.model_dump(mode="json", exclude_none=True)
    document["job"]["rounds"] = Rounds(counts=counts, most_missed=most_missed).model_dump(mode="json")
    return AggregationPlan.build(**document)


def proportional_counts(workers: Sequence[int], k: int) -> list[int]:
    """K divided among nodes in proportion to their workers, by largest remainders; at least one each.

    Example:
        >>> proportional_counts([4, 4, 1], 6)
        [3, 2, 1]
    """
    total = sum(workers)
    parts = [k * count / total for count in workers]
    counts = [int(part) for part in parts]
    by_remainder = sorted(range(len(parts)), key=lambda index: counts[index] - parts[index])
    for index in by_remainder[: k - sum(counts)]:
        counts[index] += 1
    return [max(1, count) for count in counts]


def _ranks(stream: PlanStream, node: int) -> list[int]:
    return [child.worker for child in stream.children(node) if isinstance(child, WorkerChild)]
