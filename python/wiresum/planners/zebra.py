"""Zebra's Principle 1: how many rows are hot, by the memory of the switch and the share of the updates (§III-C)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from wiresum.errors import PlanError
from wiresum.plan.sparse import SparsePart
from wiresum.planners.tiers.answer import Answer, part_of
from wiresum.planners.tiers.instance import ZEBRA_MEMORY_BYTES, SparseInstance
from wiresum.planners.tiers.methods import zebra_flow
from wiresum.planners.tiers.rounds import Rounds
from wiresum.planners.tiers.search import Thresholds
from wiresum.sparse.counts import Counts
from wiresum.sparse.frequencies import knee


@dataclass(frozen=True)
class Principle:
    """The bounds on k, and what was chosen.

    Attributes:
        by_memory: 4 B · k ≤ c · m, for each value of a row.
        by_share: the fewest rows with T_k / T_n ≥ p; None if even all have less.
        knee: rows after which 1,000 more bring less than 1 % of the updates.
        rows: the knee, or what memory holds of it.
        share: of the updates that these rows get.
    """

    by_memory: int
    by_share: int | None
    knee: int
    rows: int
    share: float


def zebra(instance: SparseInstance) -> SparsePart:
    """Zebra's flow: the hot rows of Principle 1 are summed on their way to the server, which answers every worker.

    The paper's two conditions bound k from both sides and leave it open between them; it then takes the knee. With 1 MB
    the memory would hold 262,144 parameters, of which it uses 30,000: memory is not what binds.

    Raises:
        PlanError: a worker does not reach a server, or the instance limits replicas.
    """
    if instance.replicas is not None:
        raise PlanError("replicas: the planner zebra keeps no rows at workers; leave the limit out, or choose tiers")
    counts = instance.counts
    found = principle(instance)
    rounds = Rounds(instance, zebra_flow(instance.network))
    at = counts.place(found.rows)
    answer = Answer(rounds, Thresholds(rounds.seconds(0, at), 0, at), None)
    wanted = "enough" if found.share >= instance.wanted_share else "less than wanted"
    part = part_of(instance, "zebra", answer)
    bounds = (
        f"memory holds {found.by_memory:,}, the knee is at {found.knee:,}, "
        f"{'no number' if found.by_share is None else f'{found.by_share:,}'} of rows get {instance.wanted_share:.0%}"
    )
    planner = f"zebra: {found.rows:,} hot rows get {found.share:.1%} of the updates, {wanted}; {bounds}"
    return part.model_copy(update={"planner": planner, "summed_rows": found.rows})


def principle(instance: SparseInstance) -> Principle:
    """Principle 1, for rows as popular as they were counted."""
    counts, network = instance.counts, instance.network
    nodes = network.sums_below(network.server_nodes)
    memory = min((float(network.graph.memory_bytes[node]) for node in nodes), default=np.inf)
    memory = ZEBRA_MEMORY_BYTES if np.isinf(memory) else memory
    by_memory = int(instance.memory_share * memory // instance.hot_row_bytes)
    by_share = share_rank(counts, instance.wanted_share)
    shares = counts.rows_up_to(1) / counts.pushed
    up_to_knee = knee(counts.rows, lambda ends: shares[np.searchsorted(counts.seen, ends)])
    rows = min(up_to_knee, by_memory)
    return Principle(by_memory, by_share, up_to_knee, rows, counts.hot(rows).share)


def share_rank(counts: Counts, share: float) -> int | None:
    """The fewest most popular rows that get this share of what workers push."""
    shares = counts.rows_up_to(1) / counts.pushed
    place = int(np.searchsorted(shares, share - 1e-12))
    return counts.ranks_up_to(place) if place < len(shares) else None
