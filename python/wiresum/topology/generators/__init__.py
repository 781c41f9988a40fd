"""Generators of topologies: one file each, and one line here."""

from collections.abc import Callable

from wiresum.topology.generators.fat_tree import fat_tree
from wiresum.topology.generators.goat import goat
from wiresum.topology.generators.ingo import ingo
from wiresum.topology.generators.leaf_spine import leaf_spine
from wiresum.topology.generators.racks import racks
from wiresum.topology.generators.servers import servers
from wiresum.topology.generators.star import star
from wiresum.topology.generators.stragglers import stragglers
from wiresum.topology.generators.xagg import xagg
from wiresum.topology.model import Topology

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
