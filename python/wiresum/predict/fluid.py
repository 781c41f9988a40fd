"""The fluid of the simulator (`crates/sim/src/flows`), asked about one round of flows."""

from collections import Counter
from collections.abc import Sequence

from wiresum import _native
from wiresum.errors import PlanError
from wiresum.predict.flow import Flow, Span
from wiresum.topology.paths import Capacities

MOST_NAMED = 4
"""Waiting flows that an error names."""


def simulate(flows: Sequence[Flow], capacities: Capacities) -> list[list[Span]]:
    """What each flow's rate is, over time.

    Between events the rates are max-min fair. Events are: a flow starts, ends, or catches up with one that feeds it,
    from where on it can be no faster. A flow that feeds and has ended holds nobody up; one that has not started holds
    up those that have caught up with it, at zero. Flows in lockstep are one to the simulator, over the paths of all.

    Args:
        flows: what is to be sent; the numbers in `feeds` are indices into this.
        capacities: bit/s of every capacity on a path.

    Returns:
        For each flow its spans, in order, without those in which it is idle; neighbours with the same rate are one.

    Raises:
        PlanError: flows wait for each other in a circle.
    """
    groups: dict[object, int] = {}
    part = [groups.setdefault(flow.lockstep or number, len(groups)) for number, flow in enumerate(flows)]
    members: list[list[Flow]] = [[] for _ in groups]
    for flow, group in zip(flows, part, strict=True):
        members[group].append(flow)
    index = {capacity: number for number, capacity in enumerate(capacities)}
    told = [
        (
            sorted(Counter(index[capacity] for flow in group for capacity in flow.path).items()),
            group[0].wire_bytes,
            group[0].start_seconds,
            [] if group[0].lockstep else [part[feed] for feed in group[0].feeds],
        )
        for group in members
    ]
    found, waiting = _native.predict_flows(list(capacities.values()), told)
    if waiting:
        names = ", ".join(str(members[group][0]) for group in waiting[:MOST_NAMED])
        raise PlanError(f"these flows wait for each other: {names}; the tree has a cycle")
    spans = [[Span(*span) for span in one] for one in found]
    return [spans[group] for group in part]
