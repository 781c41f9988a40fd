"""The part of a plan that is about a network of switches. `spec/plan.md` documents every field.

What can be derived is not in the document: who is summed at a switch, and where its sum goes, follow from the ways.
`crates/plan` derives it for every runner, and here it is `Derived`.
"""

from typing import Annotated, Literal

from pydantic import Field, field_validator

from wiresum.document import Document
from wiresum.plan.choices import SwitchPolicy
from wiresum.plan.members import U8, U16, U32, Child, WorkerChild, parse_socket_address
from wiresum.wire import BLOCK_LEN, HEADER_LEN, MAX_PACKET, SWITCH_HEADER_LEN

MAX_SWITCHED_VALUES = (MAX_PACKET - HEADER_LEN - SWITCH_HEADER_LEN) // BLOCK_LEN * (BLOCK_LEN // 4)
"""Most values of a packet with two headers, which is no longer than the longest packet with one."""
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
    address: str

    @field_validator("address")
    @classmethod
    def _is_socket_address(cls, address: str) -> str:
        parse_socket_address(address)
        return address

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


class FabricPlace(Document):
    """A stream's part of a switch's memory: `slots` fragments from `base` on."""

    node: U16
    base: U32
    slots: U32


class FabricLeg(Document):
    """A part of a way, on which packets have one address.

    Attributes:
        node: what they are addressed to; absent: every switch on the way.
        links: indices into the fabric's links.
    """

    node: U16 | None = None
    links: list[U16]


class FabricWay(Document):
    """The links that a worker's values take, alone and in sums, to each node that sums them, in order."""

    worker: U32
    legs: list[FabricLeg]


class FabricStream(Document):
    """How one stream is carried and summed.

    Attributes:
        sub_model: which.
        priority: urgency, where the policy preempts.
        places: where it is summed below its root, and at the root if that is a switch.
        ways: in rank order.
    """

    sub_model: U16
    priority: U8 = 0
    places: list[FabricPlace]
    ways: list[FabricWay]


class PlanFabric(Document):
    """How switches carry and sum a plan's streams, instead of the nodes of their trees.

    Attributes:
        policy: what the switches do with fragments.
        timeout_s: how long a worker hears nothing before it sends its oldest fragment again.
        links: between neighbours.
        memory: of the switches that sum.
        streams: one for each sub-model, in their order; what the exponents' stream carries is one check of each
            collective.
    """

    policy: SwitchPolicy
    timeout_s: Annotated[float, Field(ge=1e-4, le=10)] = DEFAULT_TIMEOUT_S
    links: Annotated[list[FabricLink], Field(max_length=(1 << 16) - 1)]
    memory: list[FabricMemory]
    streams: list[FabricStream]


class DerivedPlace(Document):
    """What follows for one node that sums a stream in slots.

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
        sub_model: which.
        root: where its sums end.
        places: the nodes that sum it in slots.
        ways: by rank: each link that the worker's values cross, by index, and who is at its end.
        crossings: what each fragment puts on links. Workers' own packets count each, a sum counts once however many
            are in it, and a result once for all behind a link.
    """

    sub_model: U16
    root: Child | None
    places: list[DerivedPlace]
    ways: list[list[tuple[U16, Child]]]
    crossings: list[Crossing]


class Derived(Document):
    """What follows from a plan's fabric.

    Attributes:
        switches: nodes that ways lead over, but for servers: those where sums of some stream end without slots.
        streams: in the plan's order.
    """

    switches: list[U16]
    streams: list[DerivedStream]
