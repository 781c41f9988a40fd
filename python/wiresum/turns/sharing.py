"""Links that jobs share, and how fast each may send over them."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping

from wiresum.plan.aggregation_plan import LANE_BYTES, AggregationPlan
from wiresum.plan.fabric import MAX_SWITCHED_VALUES, PACKET_OVERHEAD
from wiresum.plan.shared import SharedNetwork

PACKET_BYTES = PACKET_OVERHEAD + LANE_BYTES * MAX_SWITCHED_VALUES
GRADIENT_PART = LANE_BYTES * MAX_SWITCHED_VALUES / PACKET_BYTES
"""Part of a packet that is gradient: what a worker sends by its gate, without what gates leave free."""


def links_of(plan: AggregationPlan) -> set[str]:
    """Ids of all links of a plan's fabric."""
    return {link.id for link in plan.fabric.links} if plan.fabric else set()


def ways_of(plan: AggregationPlan) -> Counter[str]:
    """How often each link carries what one worker sends."""
    return Counter(link for leg in plan.streams[-1].legs for link in leg.links or [])


def loads_bps(rates_bps: Mapping[int, float], plans: Mapping[int, AggregationPlan]) -> dict[str, float]:
    """bit/s on each link, if all workers of some jobs send at once."""
    load: defaultdict[str, float] = defaultdict(float)
    for job, rate_bps in rates_bps.items():
        for link, workers in ways_of(plans[job]).items():
            load[link] += workers * rate_bps
    return dict(load)


def within_links(
    rates_bps: Mapping[int, float],
    plans: Mapping[int, AggregationPlan],
    network: SharedNetwork,
    interleaved: Collection[str] = (),
) -> dict[str, float]:
    """Rates of workers on the cable, by the names of their jobs, such that no link gets more than it carries.

    A timetable takes every job to have a server of its own, and a job that computes to send at its mean rate. Where it
    is otherwise, all who share a link send less: what is late anyway does not have to be lost and sent again too.

    Args:
        rates_bps: of each worker, by job, as a timetable has them.
        plans: by job, with the links of workers.
        network: which has the links' rates.
        interleaved: links whose jobs send while others compute, so that they never have more than they carry.
    """
    load = {link: bps for link, bps in loads_bps(rates_bps, plans).items() if link not in interleaved}
    part = {link: min(1.0, capacity_bps(network, link) / bps) for link, bps in load.items()}
    return {
        str(job): max(1.0, rate * min((part.get(link, 1.0) for link in ways_of(plans[job])), default=1.0))
        for job, rate in rates_bps.items()
    }


def capacity_bps(network: SharedNetwork, link: str) -> float:
    """bit/s that a link carries in each direction."""
    return network.links[link].bandwidth_bps or math.inf
