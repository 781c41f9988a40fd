"""Tables of embedding rows: what a sparse model trains beside its dense parameters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar, Final, Literal, Self

from pydantic import Field, model_validator

from wiresum.document import Document, FileDocument, PositiveAmount
from wiresum.errors import PlanError, WiresumError

MAX_ROWS = 1 << 40
"""Ids beyond would not fit the positions of a server's table: 10¹² rows are 64 TB at 16 float32 each."""
MAX_DIMENSION = 256
"""A row of float32 then still fits one packet of 1,500 bytes."""
VALUE_BYTES = {"float32": 4, "float16": 2, "bfloat16": 2}
STATE_BYTES = VALUE_BYTES["float32"]
"""Size of each number that a server keeps, of a row or of its optimizer's state, whatever the type of the row."""

FORMAT: Final = "wiresum-tables/1"
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$")]
Type = Literal["float32", "float16", "bfloat16"]
Ids = Literal["range", "hashed"]
OptimizerName = Literal["sgd", "adagrad", "row-wise-adagrad", "sparse-adam", "ftrl"]


class Optimizer(Document):
    """What turns the summed gradient of a row into its next value; `crates/sparse` has the arithmetic.

    Attributes:
        name: `sgd`, `adagrad` and `sparse-adam` as torch has them, `row-wise-adagrad` as FBGEMM, `ftrl` as
            FTRL-proximal.
        lr: learning rate.
    """

    name: OptimizerName = "sgd"
    lr: PositiveAmount = 0.01


class Table(Document):
    """Rows of equal length, one for each value of a feature.

    Attributes:
        name: unique among the tables of a model.
        rows: ids of a `range` table are 0 to `rows` − 1; of a `hashed` one, the most rows that its servers keep.
        dimension: values of a row.
        type: of a value; sums are exact whatever it is.
        ids: `range`, or `hashed` for ids of any 64 bits, whose rows appear on first use.
        features: names of the features that look rows up here; several may share a table.
        optimizer: of all its rows.
    """

    name: Name
    rows: Annotated[int, Field(gt=0, le=MAX_ROWS)]
    dimension: Annotated[int, Field(gt=0, le=MAX_DIMENSION)]
    type: Type = "float32"
    ids: Ids = "range"
    features: Annotated[list[Name], Field(min_length=1)]
    optimizer: Optimizer = Optimizer()

    @property
    def row_bytes(self) -> int:
        """Bytes of a row's values on the wire."""
        return self.dimension * VALUE_BYTES[self.type]

    @property
    def wide_row_bytes(self) -> int:
        """The same where they travel as float32, whatever their type."""
        return self.dimension * VALUE_BYTES["float32"]

    @property
    def stored_bytes(self) -> int:
        """Bytes of all rows with the optimizer's state, all in float32 at servers, without what finds a row."""
        from wiresum import _native

        state = _native.optimizer_state_len(self.optimizer.model_dump_json(), self.dimension)
        return self.rows * STATE_BYTES * (self.dimension + state)


class Tables(FileDocument):
    """The tables of one model, as a file."""

    error: ClassVar[type[WiresumError]] = PlanError
    what: ClassVar[str] = "tables"
    command: ClassVar[str] = "sparse tables"

    format: Literal["wiresum-tables/1"] = FORMAT
    tables: Annotated[list[Table], Field(min_length=1)]

    @model_validator(mode="before")
    @classmethod
    def _of_job(cls, content: object) -> object:
        """Takes the list that `wiresum.torch.sparse.job_tables` makes, too: plans need less of a table than jobs."""
        return (
            {"format": FORMAT, "tables": [_planned(one) for one in content]} if isinstance(content, list) else content
        )

    @model_validator(mode="after")
    def _names_are_unique(self) -> Self:
        _require_unique("table", [table.name for table in self.tables])
        _require_unique("feature", [feature for table in self.tables for feature in table.features])
        return self

    @property
    def rows(self) -> int:
        """Rows of all tables."""
        return sum(table.rows for table in self.tables)

    @property
    def features(self) -> int:
        """Rows that a sample touches, where each of its features has one value."""
        return sum(len(table.features) for table in self.tables)


def _planned(table: object) -> object:
    """A job's table as plans have it; what is none stays as it is, for the error that names it."""
    match table:
        case {
            "name": name,
            "rows": {"counted": rows},
            "dim": dimension,
            "optimizer": {"name": optimizer, **settings},
            **others,
        }:
            stepped = {"name": optimizer} | {name: value for name, value in settings.items() if name == "lr"}
            fields = {"name": name, "rows": rows, "dimension": dimension, "features": [name], "optimizer": stepped}
            return fields | {name: value for name, value in others.items() if name == "type"}
    return table


def _require_unique(what: str, names: Sequence[str]) -> None:
    repeated = next((name for index, name in enumerate(names) if name in names[:index]), None)
    if repeated is not None:
        raise ValueError(f"tables: two have the {what} {repeated}; each needs its own")
