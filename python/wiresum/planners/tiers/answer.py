"""From thresholds to the part of a plan, with what it promises beside other methods."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from wiresum.plan.sparse import DirectionLoad, Gains, SparsePart
from wiresum.planners.tiers.instance import SparseInstance
from wiresum.planners.tiers.methods import flows
from wiresum.planners.tiers.rounds import BITS, Rounds
from wiresum.planners.tiers.search import Thresholds
from wiresum.topology.graph import Floats

LEAST_GAIN = 1.03
"""Over no sums at all: what the model leaves out, such as headers and acknowledgements, is as much."""
ROUNDING = 1e-12
"""What differences of sums leave where nothing is sent, over the fullest direction's seconds."""


@dataclass(frozen=True, eq=False)
class Answer:
    """Thresholds, what a round takes with them, and the root of replicated rows."""

    rounds: Rounds
    thresholds: Thresholds
    root: int | None


def part_of(instance: SparseInstance, planner: str, answer: Answer) -> SparsePart:
    """The part of a plan, with what its round gains over the flows of others."""
    network, counts, at, others = instance.network, instance.counts, answer.thresholds, flows(instance)
    replicated, hot = counts.ranks_up_to(at.replicated), counts.ranks_up_to(at.summed)
    busy = answer.rounds.capacities(at.replicated, at.summed)
    gain = others.direct / at.seconds
    return SparsePart(
        planner=f"{planner}: {replicated:,} rows replicated, {hot - replicated:,} summed on their way, "
        f"{counts.rows - hot:,} straight to {len(network.servers)} servers",
        tables=list(instance.tables),
        workers=[network.graph.names[node] for node in network.workers],
        servers=list(network.servers),
        root=None if answer.root is None else network.graph.names[answer.root],
        replicated_rows=replicated,
        summed_rows=hot - replicated,
        dense_bytes=instance.dense_bytes,
        seconds=at.seconds,
        bottleneck=network.name(int(busy.argmax())),
        updates_per_second=counts.workers * counts.pushed / at.seconds,
        gains=Gains(
            push_pull=others.push_pull / at.seconds, zebra=others.zebra / at.seconds, sums=others.sums / at.seconds
        ),
        worthwhile=gain >= LEAST_GAIN,
        reason=_reason(gain),
        loads=_loads(instance, busy),
    )


def _reason(gain: float) -> str:
    if gain >= LEAST_GAIN:
        return f"a round takes {gain:.2f} times as long without sums"
    return (
        f"without sums a round takes {gain:.3f} times as long, less than {LEAST_GAIN}: "
        "push rows to their servers, and pull them, without switches that sum"
    )


def _loads(instance: SparseInstance, busy: Floats) -> list[DirectionLoad]:
    graph, links = instance.network.graph, instance.network.topology.links
    return [
        DirectionLoad(
            link=links[arc // 2].id,
            source=graph.names[graph.source[arc]],
            target=graph.names[graph.target[arc]],
            bytes=float(busy[arc] * graph.bandwidth_bps[arc] / BITS),
            seconds=float(busy[arc]),
        )
        for arc in np.flatnonzero(busy[: graph.arc_count] > ROUNDING * busy.max())
    ]
