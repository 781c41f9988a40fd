"""The sparse part of a plan: tables of rows, their servers, and the switches that sum hot rows on the way."""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from wiresum.document import Amount, Document, PositiveBytes
from wiresum.plan.members import U16, U32, NodeChild, SocketAddress, WorkerChild
from wiresum.plan.stream import PlanStream
from wiresum.plan.tables import Table
from wiresum.plan.tracking import Tracking

ETHERNET_PACKET_BYTES = 1472
"""A datagram of a frame of 1,500 bytes."""
ROWS_PORT = 5748
"""Where servers of tables, and switches of hot rows, receive; aggregators of the same host have the port before."""
Deviation = Amount
RowInitial = Literal["zeros"] | dict[Literal["uniform", "normal"], Deviation]
"""What rows begin with: zeros, or one of `{"uniform": BOUND}` and `{"normal": DEVIATION}`."""


class TableServer(Document):
    """A server of tables.

    Attributes:
        name: in the topology.
        address: where it receives, `ip:port`.
    """

    name: str
    address: SocketAddress


class RowSwitch(Document):
    """A node that sums hot rows.

    Attributes:
        node: id of one of the plan's nodes.
        address: where it receives rows, `ip:port`.
    """

    node: U16
    address: SocketAddress


class PlanHot(Document):
    """The hot map, which is a file of its own.

    Attributes:
        file: its name, beside the plan's.
        digest: 16 hexadecimal digits, by which another map is found out.
        version: of the map.
        dim: values of each hot row.
        positions: that there are, with a row or without.
        replicated: rows of tier A, the most popular ones, which every worker keeps.
        summed: rows of tier B, the next, which are summed on their way to the server.
    """

    file: str
    digest: Annotated[str, Field(pattern=r"^[0-9a-fA-F]{16}$")]
    version: U32
    dim: U16
    positions: U32
    replicated: U32
    summed: U32

    def beside(self, plan: Path | str) -> Path:
        """Where the file is, for the plan in a file."""
        return Path(plan).parent / self.file


class PlanSparse(Document):
    """Tables of rows, their servers, and the switches that sum hot rows.

    Attributes:
        planner: who decided where rows are summed, and why, for people.
        trace: the trace whose popularity was counted, from which a prediction follows.
        tables: numbered in this order.
        servers: each keeps an equal share of all rows.
        switches: with a stream for each, the row at position p is summed by the switch of number p modulo that of
            switches; with one stream they are its places, a tree with the root first.
        hot: the hot map; absent where no row is hot.
        streams: of hot rows, one for each switch, or one for all.
        tracking: how hot rows follow popularity while the job runs; absent where they stay as they are.
        initial: what rows begin with.
        seed: of what rows begin with.
        is_averaged: whether a round's gradient is the workers' sum divided by their number.
        packet_bytes: largest datagram.
        memory_bytes: what the rows of a server may take; what a server allows where absent.
    """

    planner: str = ""
    trace: str | None = None
    tables: Annotated[list[Table], Field(min_length=1)]
    servers: Annotated[list[TableServer], Field(min_length=1)]
    switches: list[RowSwitch] = Field(default_factory=list)
    hot: PlanHot | None = None
    streams: list[PlanStream] = Field(default_factory=list)
    tracking: Tracking | None = None
    initial: RowInitial = "zeros"
    seed: Annotated[int, Field(ge=0, lt=1 << 64)] = 0
    is_averaged: bool = False
    packet_bytes: U16 = ETHERNET_PACKET_BYTES
    memory_bytes: PositiveBytes | None = None

    @property
    def tree(self) -> dict[str, list[int]] | None:
        """Switches as a job's file has them, if they are a tree: that above each but the first, and each worker's."""
        if len(self.streams) != 1 or len(self.switches) == 1:
            return None
        numbers = {switch.node: number for number, switch in enumerate(self.switches)}
        legs = [(leg.child, numbers[leg.parent]) for stream in self.streams for leg in stream.legs]
        above = {child.node: number for child, number in legs if isinstance(child, NodeChild)}
        leaves = {child.worker: number for child, number in legs if isinstance(child, WorkerChild)}
        parents = [above[switch.node] for switch in self.switches[1:]]
        return {"parents": parents, "leaves": [leaves[rank] for rank in range(len(leaves))]}
