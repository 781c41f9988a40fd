"""Topologies in the formats of other tools: one file each, and one line here."""

from __future__ import annotations

from collections.abc import Callable

from wiresum.topology.interchange.containerlab import to_containerlab
from wiresum.topology.interchange.hpcc import from_hpcc
from wiresum.topology.interchange.htsim import to_htsim
from wiresum.topology.interchange.node_link import from_node_link, to_node_link
from wiresum.topology.model import Topology

IMPORTERS: dict[str, Callable[[str, str], Topology]] = {
    "hpcc": from_hpcc,
    "node-link": from_node_link,
}
"""From a text and a name; by the name that a command line takes."""

EXPORTERS: dict[str, Callable[[Topology], str]] = {
    "containerlab": to_containerlab,
    "htsim": to_htsim,
    "node-link": to_node_link,
}

__all__ = ["EXPORTERS", "IMPORTERS", "from_hpcc", "from_node_link", "to_containerlab", "to_htsim", "to_node_link"]
