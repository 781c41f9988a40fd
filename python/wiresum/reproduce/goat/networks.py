"""§VII-C: the networks of the authors' public simulation."""

from __future__ import annotations

from wiresum.topology.generators.fat_tree import fat_tree
from wiresum.topology.generators.leaf_spine import leaf_spine
from wiresum.topology.model import Topology

MB = 1_000_000
LAYERS, LAYER_MB, MEMORY_MB = 16, 15, 60
PROGRAMMABLE = {"leaf-spine": 0.25, "fat-tree": 0.125}
"""5 of 20 and 10 of 80 switches; the text says 20 %."""
LEAF_SPINE_WORKERS, FAT_TREE_WORKERS = 35, 40
PLACEMENTS = 10
"""Random placements of workers and of switches that sum."""


def network(name: str, seed: int) -> Topology:
    """One placement of the switches that sum.

    Args:
        name: `leaf-spine` or `fat-tree`.
        seed: of the placement.
    """
    share, memory = PROGRAMMABLE[name], MEMORY_MB * MB
    if name == "leaf-spine":
        return leaf_spine(programmable=share, memory_bytes=memory, seed=seed)
    return fat_tree(8, programmable=share, memory_bytes=memory, seed=seed)
