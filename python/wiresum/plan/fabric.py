"""The part of a plan that is about a network of switches. `spec/plan.md` documents every field.

Who is summed at a switch, and where its sum goes, follow from the streams' legs over its links. `crates/plan` derives
it for every runner, and here it is `Derived`.
"""

from typing import Annotated, Literal

from pydantic import Field

from wiresum.document import Document
from wiresum.plan.members import U8, U16, U32, Child, SocketAddress, WorkerChild
from wiresum.wire import BLOCK_LEN, ETHERNET_LEN, HEADER_LEN, IPV4_LEN, PAGE_PACKET, SWITCH_HEADER_LEN, UDP_LEN

MAX_SWITCHED_VALUES = (PAGE_PACKET - HEADER_LEN - SWITCH_HEADER_LEN) // BLOCK_LEN * (BLOCK_LEN // 4)
"""Most values of a packet with two headers, which is no longer than the longest packet with one that lies in a page."""
PACKET_OVERHEAD = ETHERNET_LEN + IPV4_LEN + UDP_LEN + HEADER_LEN + SWITCH_HEADER_LEN
"""Bytes of a packet with two headers beside its values, on Ethernet."""
DEFAULT_TIMEOUT_S = 0.2
"""Well above what full queues add to a round trip, as what is sent again needlessly costs a link what it carries."""

Site = tuple[Literal["worker", "node"], int]
"""A worker by rank, or a node by id."""


class FabricEnd(Document):
    """An end of a link.

    Attributes:
        at: who is there.
        address: where its neighbour sends to, `ip:port`.
    """

    at: Child
    address: SocketAddress

    @property
    def site(self) -> Site:
        """Who is there, as a key."""
        return ("worker", self.at.worker) if isinstance(self.at, WorkerChild) else ("node", self.at.node)


class FabricLink(Document):
    """A link between two neighbours, in both directions.

    Attributes:
        id: as in the topology.
        ends: its two ends.
    """

    id: str
    ends: Annotated[list[FabricEnd], Field(min_length=2, max_length=2)]


class FabricMemory(Document):
    """What a switch keeps: so many fragments."""

    node: U16
    slots: U32


class PlanFabric(Document):
    """A network of switches that carries and sums a plan's streams, where no servers do.

    Attributes:
        timeout_s: how long a worker hears nothing before it sends its oldest fragment again.
        links: between neighbours.
        memory: of the switches that sum.
    """

    timeout_s: Annotated[float, Field(ge=1e-4, le=10)] = DEFAULT_TIMEOUT_S
    links: Annotated[list[FabricLink], Field(max_length=(1 << 16) - 1)]
    memory: list[FabricMemory]


class DerivedPlace(Document):
    """What follows for one node that sums a stream.

    Attributes:
        node: the node.
        members: ranks of which its sum is made.
        parent: where that sum goes; None if it is the result.
    """

    node: U16
    members: list[U8]
    parent: U16 | None


class Crossing(Document):
    """How often each fragment of a stream crosses a link in one direction.

    Attributes:
        link: by index.
        to: where it leads to.
        times: how often.
    """

    link: U16
    to: Child
    times: U32


class DerivedStream(Document):
    """What follows for one stream.

    Attributes:
        id: which.
        places: the nodes that sum it, a parameter server among them.
        crossings: what each fragment puts on links. Workers' own packets count each, a sum counts once however many
            are in it, and a result once for all behind a link.
    """

    id: U16
    places: list[DerivedPlace]
    crossings: list[Crossing]


class Derived(Document):
    """What follows from a plan's fabric.

    Attributes:
        switches: nodes that ways lead over, but for servers: those where sums of some stream end without slots.
        streams: in the plan's order.
    """

    switches: list[U16]
    streams: list[DerivedStream]
