"""A stream of a plan: the nodes that sum it, and the legs that its values take from one to the next."""

from typing import Annotated, Literal

from pydantic import Field

from wiresum.document import Document
from wiresum.plan.choices import SwitchPolicy
from wiresum.plan.members import U8, U16, U32, Child, NodeChild

SLOT_VERSIONS = 2
"""Entries of a slot."""
Role = Literal["exponents", "values", "parts", "copies", "acknowledgements", "hot"]
EXCHANGES: frozenset[Role] = frozenset({"parts", "copies", "acknowledgements"})
"""Roles that a plan has all of, or none."""


class PlanPlace(Document):
    """A node's part in a stream.

    Attributes:
        node: the node.
        base: the first of its slots, at a switch.
        slots: fragments that it keeps; absent at a parameter server, which completes sums without slots.
    """

    node: U16
    base: U32 = 0
    slots: U32 | None = None


class PlanLeg(Document):
    """The part of a way from a worker, or from a node that sums, to the next node that sums.

    Attributes:
        child: where it begins.
        parent: the node that sums what it brings; among the legs to the same parent, its index is the contributor.
        links: ids of the topology's links that it takes, and results back; absent where the network chooses.
    """

    child: Child
    parent: U16
    links: list[str] | None = None


Tree = tuple[tuple[Child, int], ...]
"""A stream's legs without their links: each child with the id of its parent."""


class PlanStream(Document):
    """An ordered part of a job's values, with slots of its own.

    Attributes:
        id: its number in packets.
        name: its name, for people.
        role: what it carries.
        share: fraction that it carries of each collective of its role; 0 for exponents and acknowledgements.
        policy: how fragments find their slots, and what acknowledges them.
        window: most fragments that a worker has sent without an acknowledgement.
        priority: urgency, where the policy preempts.
        places: the nodes that sum it.
        legs: one from each worker, and one from each place but the root.
    """

    id: U16
    name: str
    role: Role
    share: Annotated[float, Field(ge=0, le=1)]
    policy: SwitchPolicy
    window: U32
    priority: U8 = 0
    places: list[PlanPlace]
    legs: list[PlanLeg]

    @property
    def tree(self) -> Tree:
        """Who sends to whom."""
        return tuple((leg.child, leg.parent) for leg in self.legs)

    @property
    def root(self) -> int:
        """The node at which the sums are complete: it has a place, and no leg to another."""
        below = {leg.child.node for leg in self.legs if isinstance(leg.child, NodeChild)}
        return next(place.node for place in self.places if place.node not in below)

    @property
    def slots(self) -> int:
        """Slots at each of its places, where servers sum; 0 at a parameter server."""
        return self.places[0].slots or 0

    @property
    def is_exchange(self) -> bool:
        """Whether it is one of those for copies and for sums that one rank takes: no all-reduce goes through it."""
        return self.role in EXCHANGES

    def place(self, node: int) -> PlanPlace | None:
        """A node's place."""
        return next((place for place in self.places if place.node == node), None)

    def children(self, node: int) -> list[Child]:
        """Who sends to a node; the index is the contributor."""
        return [leg.child for leg in self.legs if leg.parent == node]

    def slot_bytes(self, payload_bytes: int) -> int:
        """Memory for values at each of its servers, whose slots are alike."""
        return self.slots * SLOT_VERSIONS * payload_bytes
