"""What a topology file says of an optical circuit switch (OXC), and a circuit of it. `spec/topology.md` has both."""

from typing import Annotated, Literal

from pydantic import Field

from wiresum.document import Document, Seconds
from wiresum.topology.names import Name

Darkens = Literal["added", "units", "all"]
Side = Literal["A", "B"]
SIDES: tuple[Side, Side] = ("A", "B")


class OpticalPort(Document):
    """A duplex port of an optical switch.

    Attributes:
        name: what the device calls it, unique within the switch.
        link: the fibre that ends there; absent where none does.
        side: where a switch has two sides, circuits join a port of one to a port of the other.
    """

    name: Name
    link: Name | None = None
    side: Side | None = None


class Oxc(Document):
    """What a node of kind `oxc` is.

    Attributes:
        dark_s: seconds without light after an order.
        settle_s: seconds from light to traffic: receivers find their level, links train.
        darkens: what loses its light when circuits change: the added ones, all of the units that an added or removed
            one joins, or all of the switch.
        ports: the ports; where absent, one for each link of the node, named 1, 2, … in the order of the links.
        driver: address of the device, as `polatis-rest://10.0.0.7`.
    """

    dark_s: Seconds
    settle_s: Seconds = 0.0
    darkens: Darkens = "added"
    ports: list[OpticalPort] = Field(default_factory=list)
    driver: str | None = None


class Circuit(Document):
    """Two fibres that an optical switch joins to one link.

    Attributes:
        switch: the optical switch.
        links: ids of the two fibres.
    """

    switch: Name
    links: Annotated[list[Name], Field(min_length=2, max_length=2)]
