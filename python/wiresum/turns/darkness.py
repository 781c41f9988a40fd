"""When circuits are dark, and which ones a change darkens."""

from __future__ import annotations

from collections.abc import Set as AbstractSet

from wiresum.plan.shared import SharedNetwork
from wiresum.topology.circuits import optical_switches
from wiresum.topology.model import Topology


def dark_s(topology: Topology) -> float:
    """Seconds from an order to traffic."""
    return max((one.oxc.dark_s + one.oxc.settle_s for one in optical_switches(topology) if one.oxc), default=0.0)


def darkened(network: SharedNetwork, before: AbstractSet[str], now: AbstractSet[str]) -> set[str]:
    """Circuits, by their links' names, that are dark before or after a change, or during it.

    Args:
        network: which has the circuits, and optical switches that say what a change darkens.
        before: that are lit before.
        now: that are lit after it.
    """
    changed = set(before ^ now)
    switches = optical_switches(network.topology)
    darkens = max((one.oxc.darkens for one in switches if one.oxc), default="added")
    if darkens == "added" or not changed:
        return changed
    if darkens == "all":
        return set(before | now)
    units = set().union(*(network.ends(name) for name in changed))
    return {name for name in before | now if network.ends(name) & units}
