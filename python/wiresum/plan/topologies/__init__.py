"""Generators of topologies: one file each, and one line here."""

from collections.abc import Callable

from wiresum.plan.topologies.servers import servers
from wiresum.plan.topologies.star import star
from wiresum.plan.topologies.stragglers import stragglers
from wiresum.plan.topologies.xagg import xagg
from wiresum.plan.topology import Topology

TOPOLOGIES: dict[str, Callable[..., Topology]] = {
    "servers": servers,
    "star": star,
    "stragglers": stragglers,
    "xagg": xagg,
}
"""By the name that a command line takes."""

__all__ = ["TOPOLOGIES", "servers", "star", "stragglers", "xagg"]
