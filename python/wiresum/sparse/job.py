"""A sparse job's file, which its servers, its switches and its workers read: who they are, and what the tables are."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from secrets import token_hex
from typing import Any

from wiresum.document import read_text
from wiresum.errors import PlanError
from wiresum.plan.aggregation_plan import FORMAT as PLAN_FORMAT
from wiresum.plan.aggregation_plan import AggregationPlan
from wiresum.plan.rows import ETHERNET_PACKET_BYTES, PlanHot, RowInitial
from wiresum.plan.tables import Table

FORMAT = "wiresum-sparse-job/1"
"""`crates/sparse/src/live/job.rs` reads and checks it."""
SECRET_BYTES = 32
"""Bytes of a job's secret."""
PLAN_HEAD = 200
"""Letters of a file within which it says that it is a plan."""


def job_text(job: str | Path) -> str:
    """The text of a job's file.

    Args:
        job: the text, the path of the file, or the path of a plan with tables.

    Raises:
        PlanError: the plan has no tables, or its hot map is not the one it was made with.
    """
    if str(job).lstrip().startswith("{"):
        return str(job)
    text = read_text(job, "sparse job", PlanError)
    return job_of_plan(job) if f'"{PLAN_FORMAT}"' in text[:PLAN_HEAD] else text


def job_of_plan(path: Path | str, secret: Path | None = None) -> str:
    """The text of the job's file that follows from a plan's file, its secret and its hot map.

    Args:
        path: of the plan.
        secret: file of its secret; `PATH.secret` where absent.

    Raises:
        PlanError: the plan has no tables, or its hot map is not the one it was made with.
    """
    plan = AggregationPlan.read(path, secret)
    if plan.sparse is None:
        raise PlanError(f"plan {path}: has no tables; make one with `wiresum plan --planner tiers`")
    return sparse_job_of(plan, None if plan.sparse.hot is None else _map(plan.sparse.hot, path))


def sparse_job_of(plan: AggregationPlan, hot: str | None) -> str:
    """The text of the job's file that follows from a plan with tables, and the text of its hot map."""
    sparse = plan.sparse
    if sparse is None:
        raise PlanError("the plan has no tables; make one with `wiresum plan --planner tiers`")
    return sparse_job(
        sparse.tables,
        len(plan.workers),
        [server.address for server in sparse.servers],
        [switch.address for switch in sparse.switches],
        tree=sparse.tree,
        hot=hot,
        tracking=None if sparse.tracking is None else sparse.tracking.model_dump(),
        job=plan.job.id,
        secret=plan.job.secret,
        packet_bytes=sparse.packet_bytes,
        initial=sparse.initial,
        seed=sparse.seed,
        is_averaged=sparse.is_averaged,
        memory_bytes=sparse.memory_bytes,
    )


def read_sparse_job(path: Path) -> dict[str, Any] | None:
    """The content of a sparse job's file; None where the file is another document, or none at all.

    Raises:
        PlanError: the file cannot be read.
    """
    try:
        content = json.loads(read_text(path, "job", PlanError))
    except ValueError:
        return None
    return content if isinstance(content, dict) and content.get("format") == FORMAT else None


def _map(hot: PlanHot, plan: Path | str) -> str:
    """The text of a plan's hot map."""
    from wiresum._native import hot_map_digest

    file = hot.beside(plan)
    text = read_text(file, "hot map", PlanError)
    digest = f"{hot_map_digest(text):016x}"
    if digest != hot.digest:
        raise PlanError(f"hot map {file}: has the digest {digest}, and plan {plan} wants {hot.digest}; plan again")
    return text


def sparse_job(
    tables: Sequence[Table | Mapping[str, Any]],
    workers: int,
    servers: Sequence[str],
    switches: Sequence[str] = (),
    *,
    tree: Mapping[str, Sequence[int]] | None = None,
    hot: str | None = None,
    tracking: dict[str, Any] | None = None,
    job: int = 1,
    secret: str | None = None,
    packet_bytes: int = ETHERNET_PACKET_BYTES,
    initial: RowInitial = "zeros",
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
        tree: `parents`, the switch above each switch but the first, and `leaves`, the switch of each worker; where
            it is absent, positions are divided among all switches, which hear all workers.
        hot: the text of a hot map; its tables are numbered alike.
        tracking: how the hot rows follow popularity while the job runs: `{"name": "decaying", "period": ROUNDS}`, or
            the paper's methods, `{"name": "once", "after": ROUND}` and `{"name": "sampling", "rate": SHARE, "after":
            ROUND}`. They stay as they are where it is absent.
        job: its number.
        secret: 64 hexadecimal digits; fresh ones where absent.
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
        "tree": tree,
        "tables": rows,
        "hot": json.loads(hot) if hot else None,
        "tracking": tracking,
        "packet_bytes": packet_bytes,
        "secret": secret or token_hex(SECRET_BYTES),
        "memory_bytes": memory_bytes,
    }
    return json.dumps({name: value for name, value in document.items() if value is not None}) + "\n"


def _row_of(number: int, table: Table) -> dict[str, Any]:
    return {
        "id": number,
        "name": table.name,
        "rows": {"hashed" if table.ids == "hashed" else "counted": table.rows},
        "dim": table.dimension,
        "type": table.type,
        "optimizer": table.optimizer.model_dump(),
    }
