"""The files of a sparse job as schemas: `crates/sparse` reads and checks them, and says what is wrong."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal, get_args

from pydantic import Field, Strict

from wiresum.document import Document, FileDocument
from wiresum.errors import PlanError, TraceError, WiresumError
from wiresum.plan.members import U16, U32, SocketAddress
from wiresum.plan.rows import ETHERNET_PACKET_BYTES, RowInitial
from wiresum.plan.tables import MAX_DIMENSION, OptimizerName, Type
from wiresum.plan.tracking import Tracking

U64 = Annotated[int, Field(ge=0, lt=1 << 64)]
HotRow = Annotated[tuple[U16, U64, U32, Literal["A", "B"]], Strict(False)]
"""Table, row, position and tier."""


class HotMap(FileDocument):
    """Which rows are hot; `spec/sparse.md` has the tiers.

    Attributes:
        version: grows by one with each change while a job runs.
        dim: values of each row.
        positions: that there are, with a row or without.
        block: positions below it are sent as whole blocks; nothing does so yet.
        rows: table, row, position and tier of each hot row.
        digest: 16 hexadecimal digits; absent in a draft.
    """

    error: ClassVar[type[WiresumError]] = TraceError
    what: ClassVar[str] = "hot map"
    command: ClassVar[str] = "plan"

    format: Literal["wiresum-hot-map/1"]
    version: U32
    dim: Annotated[int, Field(ge=1, le=MAX_DIMENSION)]
    positions: U32
    block: U32 = 0
    rows: list[HotRow]
    digest: Annotated[str, Field(pattern=r"^[0-9a-f]{16}$")] | None = None


class JobTable(Document):
    """A table as servers keep it.

    Attributes:
        id: its number, by its place.
        name: for people.
        rows: `counted`: numbers from 0; `hashed`: any 64 bits, of which servers keep so many.
        dim: values of a row.
        type: of the values that workers push and are told; servers keep and step float32.
        optimizer: its name, with its hyperparameters.
        initial: what rows begin with.
        seed: of what rows begin with.
        is_averaged: whether a round's gradient is the workers' sum divided by their number.
        steps_before: rounds that count as steps before the first; −1 where that one loads rows.
        expire_after: rounds without a gradient after which a row begins anew.
    """

    id: U16
    name: str
    rows: dict[Literal["counted", "hashed"], Annotated[int, Field(gt=0, lt=1 << 64)]]
    dim: Annotated[int, Field(ge=1, le=MAX_DIMENSION)]
    type: Type = "float32"
    optimizer: dict[str, Any] = Field(
        json_schema_extra={"properties": {"name": {"enum": list(get_args(OptimizerName))}}}
    )
    initial: RowInitial
    seed: U64
    is_averaged: bool = False
    steps_before: Annotated[int, Field(ge=-1, lt=1 << 63)] = 0
    expire_after: Annotated[int, Field(gt=0, lt=1 << 32)] | None = None


class JobRenewal(Document):
    """How often keys are renewed; `spec/security.md` has the rules.

    Attributes:
        rounds: of a generation, a power of two.
        interval_ms: milliseconds from one renewal by time to the next.
    """

    rounds: Literal[16, 32, 64, 128, 256, 512, 1024]
    interval_ms: Annotated[int, Field(ge=200, le=1_800_000)]


class SwitchTree(Document):
    """Switches that sum hot rows as a tree; the first one is the root.

    Attributes:
        parents: for each switch but the first, the one above it, which has a smaller number.
        leaves: for each worker, the switch that it sends hot rows to.
    """

    parents: list[U16]
    leaves: Annotated[list[U16], Field(min_length=1)]


class SparseJobFile(FileDocument):
    """What all participants of a sparse job read.

    Attributes:
        id: of the job.
        workers: how many.
        servers: of tables, each with an equal share of all rows.
        switches: that sum hot rows; the row at position p is summed by switch p modulo their number, unless in a tree.
        tree: of the switches; absent where each hears all workers.
        tables: numbered in this order.
        hot: the hot map; absent where no row is hot.
        tracking: how hot rows follow popularity; absent where they stay as they are.
        memory_bytes: what the rows of a server may take.
        packet_bytes: largest datagram.
        renewal: how often keys are renewed; absent for every 1024 rounds and every half-hour.
        secret: 64 hexadecimal digits that strangers do not know.
    """

    error: ClassVar[type[WiresumError]] = PlanError
    what: ClassVar[str] = "sparse job"
    command: ClassVar[str] = "sparse job"

    format: Literal["wiresum-sparse-job/1"]
    id: U16
    workers: Annotated[int, Field(ge=1, le=64)]
    servers: Annotated[list[SocketAddress], Field(min_length=1)]
    switches: list[SocketAddress] = Field(default_factory=list)
    tree: SwitchTree | None = None
    tables: Annotated[list[JobTable], Field(min_length=1)]
    hot: HotMap | None = None
    tracking: Tracking | None = None
    memory_bytes: U64 = 4 << 30
    packet_bytes: U16 = ETHERNET_PACKET_BYTES
    renewal: JobRenewal | None = None
    secret: Annotated[str, Field(pattern=r"^[0-9a-fA-F]{64}$")]
