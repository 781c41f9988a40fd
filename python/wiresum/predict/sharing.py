"""How flows share capacities: max-min fair, with flows that cannot outrun others."""

import heapq
from collections.abc import Collection, Mapping, Sequence

from wiresum.topology.paths import Capacities, Capacity

LEVEL_TOLERANCE = 1e-12
"""Relative; a capacity whose level rose by less since it was queued is still the next to fill up."""


def max_min_rates(
    paths: Sequence[Sequence[Capacity]],
    capacities: Capacities,
    followers: Mapping[int, Collection[int]],
    idle: Collection[int],
) -> list[float]:
    """The max-min fair rates of flows, by progressive filling.

    All rates rise together; when a capacity is full the flows that cross it stay as they are, and so do the flows that
    follow them: a flow that sends on what another brings is never faster. What they leave unused the others take.
    Takes O(F × P × log C) for F flows over P of C capacities each.

    Args:
        paths: the capacities that each flow crosses; at least one each.
        capacities: bit/s of each.
        followers: for each flow those that may not be faster.
        idle: flows that send nothing now.

    Returns:
        bit/s of each flow.

    Example:
        >>> wire, slow = Capacity("wire", "a", "b"), Capacity("slow", "c", "a")
        >>> max_min_rates([[wire], [wire, slow]], {wire: 10.0, slow: 2.0}, {}, idle=[])
        [8.0, 2.0]
    """
    filling = _Filling(paths, capacities, followers)
    for flow in idle:
        filling.settle(flow, 0.0)
    level = 0.0
    while filling.queue:
        queued, capacity = heapq.heappop(filling.queue)
        if not filling.open_flows[capacity]:
            continue
        full_at = filling.full_at(capacity)
        if full_at > queued * (1 + LEVEL_TOLERANCE):
            heapq.heappush(filling.queue, (full_at, capacity))
            continue
        level = max(level, full_at)
        for flow in sorted(filling.open_flows[capacity]):
            filling.settle(flow, level)
    return [filling.rates[flow] for flow in range(len(paths))]


class _Filling:
    """Capacities in the order in which they fill up. A level in the queue may be too low, never too high."""

    def __init__(
        self,
        paths: Sequence[Sequence[Capacity]],
        capacities: Capacities,
        followers: Mapping[int, Collection[int]],
    ) -> None:
        self.paths = paths
        self.capacities = capacities
        self.followers = followers
        self.rates: dict[int, float] = {}
        self.open_flows: dict[Capacity, set[int]] = {}
        for flow, path in enumerate(paths):
            for capacity in path:
                self.open_flows.setdefault(capacity, set()).add(flow)
        self.settled_bps = dict.fromkeys(self.open_flows, 0.0)
        self.queue = [(self.full_at(capacity), capacity) for capacity in self.open_flows]
        heapq.heapify(self.queue)

    def full_at(self, capacity: Capacity) -> float:
        """The common rate of the open flows at which the capacity is full."""
        left = max(self.capacities[capacity] - self.settled_bps[capacity], 0.0)
        return left / len(self.open_flows[capacity])

    def settle(self, flow: int, rate_bps: float) -> None:
        """Gives a flow its final rate, and the same to those that follow it."""
        waiting = [flow]
        while waiting:
            settled = waiting.pop()
            if settled in self.rates:
                continue
            self.rates[settled] = rate_bps
            for capacity in self.paths[settled]:
                self.open_flows[capacity].remove(settled)
                self.settled_bps[capacity] += rate_bps
            waiting.extend(self.followers.get(settled, ()))
