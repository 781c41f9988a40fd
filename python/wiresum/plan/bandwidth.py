"""What a host's link bounds: the bandwidths in a plan, from which rates are negotiated."""

from typing import NamedTuple

from wiresum.topology.model import Topology


class Bandwidths(NamedTuple):
    """bit/s on the wire, Ethernet headers included; None where unlimited, or not one number.

    Attributes:
        ingress: what arrives at the host.
        egress: what leaves it.
    """

    ingress: int | None
    egress: int | None


def bandwidths(topology: Topology, name: str) -> Bandwidths:
    """The bandwidths of a host's only link.

    A switch, or a host with several links, has none: there, each child has a link of its own, and no two compete.

    Raises:
        TopologyError: there is no such node.

    Example:
        >>> from wiresum.topology.generators.star import star
        >>> bandwidths(star(2, rate_bps=500e6), "w0")
        Bandwidths(ingress=500000000, egress=500000000)
        >>> bandwidths(star(2), "switch")
        Bandwidths(ingress=None, egress=None)
    """
    links = topology.links_of(name)
    if topology.node(name).kind == "switch" or len(links) != 1:
        return Bandwidths(None, None)
    link = links[0]
    return Bandwidths(_whole(link.bandwidth_from(link.other_end(name))), _whole(link.bandwidth_from(name)))


def _whole(bps: float | None) -> int | None:
    return None if bps is None else max(1, round(bps))
