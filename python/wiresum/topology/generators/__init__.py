"""Generators of topologies: one file each, and one line here."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from wiresum.registry import Registry

if TYPE_CHECKING:
    from wiresum.topology.model import Topology

TOPOLOGIES: Registry[Callable[..., Topology]] = Registry(
    {
        "fat-tree": "wiresum.topology.generators.fat_tree:fat_tree",
        "goat": "wiresum.topology.generators.goat:goat",
        "ingo": "wiresum.topology.generators.ingo:ingo",
        "leaf-spine": "wiresum.topology.generators.leaf_spine:leaf_spine",
        "optical": "wiresum.topology.generators.optical:optical",
        "racks": "wiresum.topology.generators.racks:racks",
        "servers": "wiresum.topology.generators.servers:servers",
        "star": "wiresum.topology.generators.star:star",
        "stragglers": "wiresum.topology.generators.stragglers:stragglers",
        "xagg": "wiresum.topology.generators.xagg:xagg",
    }
)
"""By the name that a command line takes."""
