"""Generators of topologies: one file each, and one line here."""

from collections.abc import Callable

from wiresum.plan.topologies.fat_tree import fat_tree
from wiresum.plan.topologies.goat import goat
from wiresum.plan.topologies.ingo import ingo
from wiresum.plan.topologies.leaf_spine import leaf_spine
from wiresum.plan.topologies.racks import racks
from wiresum.plan.topologies.servers import servers
from wiresum.plan.topologies.star import star
from wiresum.plan.topologies.stragglers import stragglers
from wiresum.plan.topologies.xagg import xagg
from wiresum.plan.topology import Topology

TOPOLOGIES: dict[str, Callable[..., Topology]] = {
    "fat-tree": fat_tree,
    "goat": goat,
    "ingo": ingo,
    "leaf-spine": leaf_spine,
    "racks": racks,
    "servers": servers,
    "star": star,
    "stragglers": stragglers,
    "xagg": xagg,
}
"""By the name that a command line takes."""

__all__ = ["TOPOLOGIES", "fat_tree", "goat", "ingo", "leaf_spine", "racks", "servers", "star", "stragglers", "xagg"]
