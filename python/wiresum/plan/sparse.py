"""Where each row of a sparse model is summed: the answer of the planners `tiers` and `zebra`."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from wiresum.document import Amount, Bytes, Count, Document, FileDocument
from wiresum.errors import PlanError, WiresumError
from wiresum.plan.tables import Table


class DirectionLoad(Document):
    """What one direction of a link carries in a round.

    Attributes:
        link: its id.
        source: the node that sends.
        target: the node that receives.
        bytes: of rows, keys and dense gradient, without packets' headers.
        seconds: that they take.
    """

    link: str
    source: str
    target: str
    bytes: Amount
    seconds: Amount


class Gains(Document):
    """How many times longer other methods take on the same network, with as many servers.

    Attributes:
        push_pull: every row goes to its server with a key of 8 bytes and is pulled from there, without sums.
        zebra: Zebra's flow with its 30,000 hot rows: sums go to the servers, which answer every worker.
        sums: all rows are summed on their way to the servers, and pulled.
    """

    push_pull: Amount
    zebra: Amount
    sums: Amount


class SparsePart(FileDocument):
    """The sparse part of a job: its tables, their servers, and the tier of each row by popularity.

    Attributes:
        planner: who made it, and why so, for people.
        tables: of the model.
        workers: names, in rank order.
        servers: names of the nodes that keep equal shares of all rows.
        root: the node where replicated rows and the dense gradient are summed, and sent down from; absent where no
            node sums for all workers.
        replicated_rows: tier A: the most popular rows, which every worker keeps; their sums are broadcast.
        summed_rows: tier B: the next rows, which are summed on their way to the server and pulled from there.
        dense_bytes: float32 bytes of the dense gradient.
        seconds: of a round, by the busiest direction of a link or the busiest adder.
        bottleneck: which one that is.
        updates_per_second: distinct rows of all workers that are pushed, applied and pulled in a second.
        gains: over other methods.
        worthwhile: whether sums on the way make a round quicker than none by more than planning can be wrong.
        reason: why, or why not.
        loads: of the directions of links that carry anything.
    """

    error: ClassVar[type[WiresumError]] = PlanError
    what: ClassVar[str] = "sparse part"
    command: ClassVar[str] = "plan"

    format: Literal["wiresum-sparse/1"] = "wiresum-sparse/1"
    planner: str
    tables: Annotated[list[Table], Field(min_length=1)]
    workers: Annotated[list[str], Field(min_length=1)]
    servers: Annotated[list[str], Field(min_length=1)]
    root: str | None = None
    replicated_rows: Count
    summed_rows: Count
    dense_bytes: Bytes
    seconds: Amount
    bottleneck: str
    updates_per_second: Amount
    gains: Gains
    worthwhile: bool
    reason: str
    loads: list[DirectionLoad]
