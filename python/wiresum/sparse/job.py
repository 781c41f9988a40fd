"""A sparse job's file, which its servers, its switches and its workers read: who they are, and what the tables are."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from wiresum.plan.tables import Table

FORMAT = "wiresum-sparse-job/1"
"""`crates/sparse/src/live/job.rs` reads and checks it."""
ETHERNET_PACKET_BYTES = 1472
"""A datagram of a frame of 1,500 bytes."""


def sparse_job(
    tables: Sequence[Table | Mapping[str, Any]],
    workers: int,
    servers: Sequence[str],
    switches: Sequence[str] = (),
    *,
    hot: str | None = None,
    job: int = 1,
    secret: int = 0,
    packet_bytes: int = ETHERNET_PACKET_BYTES,
    initial: str | dict[str, float] = "zeros",
    seed: int = 0,
    is_averaged: bool = False,
    memory_bytes: int | None = None,
) -> str:
    """The text of a job's file.

    Args:
        tables: of the model, numbered in this order; or as the file has them, which `wiresum.torch.sparse.job_tables`
            makes.
        workers: how many there are.
        servers: `HOST:PORT` of each server of tables.
        switches: `HOST:PORT` of each switch that sums hot rows.
        hot: the text of a hot map; its tables are numbered alike.
        job: its number.
        secret: what strangers do not know.
        packet_bytes: largest datagram.
        initial: what rows of a `Table` begin with: `zeros`, `{"uniform": BOUND}` or `{"normal": DEVIATION}`.
        seed: of initial values of a `Table`.
        is_averaged: gradients for a `Table` are divided by the number of workers.
        memory_bytes: what the rows of a server may take; the format's default where absent.
    """
    begun = {"initial": initial, "seed": seed, "is_averaged": is_averaged}
    rows = [
        _row_of(number, table) | begun if isinstance(table, Table) else {**table, "id": number}
        for number, table in enumerate(tables)
    ]
    document: dict[str, Any] = {
        "format": FORMAT,
        "id": job,
        "workers": workers,
        "servers": list(servers),
        "switches": list(switches),
        "tables": rows,
        "hot": json.loads(hot) if hot else None,
        "packet_bytes": packet_bytes,
        "secret": secret,
        "memory_bytes": memory_bytes,
    }
    return json.dumps({name: value for name, value in document.items() if value is not None}) + "\n"


def _row_of(number: int, table: Table) -> dict[str, Any]:
    return {
        "id": number,
        "name": table.name,
        "rows": {"hashed" if table.ids == "hashed" else "counted": table.rows},
        "dim": table.dimension,
        "optimizer": table.optimizer.model_dump(),
    }
