"""Topologies in the formats of other tools: one file each, and one line here."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from wiresum.registry import Registry

if TYPE_CHECKING:
    from wiresum.topology.model import Topology

IMPORTERS: Registry[Callable[[str, str], Topology]] = Registry(
    {
        "hpcc": "wiresum.topology.interchange.hpcc:from_hpcc",
        "node-link": "wiresum.topology.interchange.node_link:from_node_link",
    }
)
EXPORTERS: Registry[Callable[[Topology], str]] = Registry(
    {
        "containerlab": "wiresum.topology.interchange.containerlab:to_containerlab",
        "htsim": "wiresum.topology.interchange.htsim:to_htsim",
        "node-link": "wiresum.topology.interchange.node_link:to_node_link",
    }
)
