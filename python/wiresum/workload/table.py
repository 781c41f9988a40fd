"""Reads jobs from a table, as clusters publish them: one row for each job, with its arrival and its GPUs.

Columns go by the names that published traces have (Philly, Helios, Lingjun and others); what a table lacks is drawn or
given. It says nothing of locations: jobs are placed in as few units as possible, in the order in which they come.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from random import Random
from typing import Any

from wiresum.errors import WorkloadError
from wiresum.topology.model import Topology
from wiresum.workload.model import Workload, WorkloadJob
from wiresum.workload.sites import Placer, units_of

COLUMNS: dict[str, Sequence[str]] = {
    "name": ("job", "job_id", "jobid", "name"),
    "arrival": ("arrival_s", "arrival", "submit_time", "submitted_time", "gmt_job_submitted", "time"),
    "workers": ("workers", "num_gpu", "gpu_num", "num_gpus", "gpus", "gpu", "worker_num"),
    "bytes": ("bytes", "gradient_bytes", "size_bytes"),
    "iterations": ("iterations", "steps", "num_iterations"),
    "compute_s": ("compute_s", "iteration_s"),
}
"""Names of each column, the first of which counts that is there."""
REQUIRED = ("arrival", "workers")


def table(
    text: str,
    topology: Topology,
    size_bytes: tuple[int, int],
    *,
    name: str = "table",
    spread: float = 0.0,
    by_host: bool = False,
    seed: int = 0,
) -> Workload:
    """Stars of a table with a header, comma-separated. Arrivals count from the first one; rows may be in any order.

    Rows without a GPU are left out, as their jobs send no gradients.

    Args:
        text: of the table.
        topology: where the jobs run.
        size_bytes: least and most bytes of a worker's gradient, drawn for each job of a table without such a column.
        name: of the workload.
        spread: as in `poisson`.
        by_host: likewise.
        seed: of sizes and locations.

    Raises:
        WorkloadError: a column is missing, or a value is none; the message names the line.
    """
    reader = csv.DictReader(text.splitlines())
    columns = _columns([*(reader.fieldnames or [])])
    read = [_row(row, columns, line) for line, row in enumerate(reader, 2)]
    rows = sorted((row for row in read if row["workers"] > 0), key=lambda row: float(row["arrival"]))
    if not rows:
        raise WorkloadError("the table has no job with workers; check its column of GPUs")
    random = Random(seed)
    placer = Placer(units_of(topology), random, spread, by_host)
    jobs = [
        WorkloadJob.of_line(
            row["line"],
            name=f"j{number}" if row["name"] is None else row["name"],
            arrival_s=round(row["arrival"] - rows[0]["arrival"], 6),
            bytes=row["bytes"] or random.randint(*size_bytes),
            workers=placer.workers(row["workers"]),
            server=placer.server(),
            iterations=row["iterations"] or 1,
            compute_s=row["compute_s"] or 0.0,
        )
        for number, row in enumerate(rows, 1)
    ]
    return Workload.build(name=name, jobs=jobs)


def _columns(header: Sequence[str]) -> dict[str, str | None]:
    known = {title.strip().lower(): title for title in header}
    found = {what: next((known[one] for one in names if one in known), None) for what, names in COLUMNS.items()}
    missing = next((what for what in REQUIRED if found[what] is None), None)
    if missing is not None:
        raise WorkloadError(f"line 1: no column for {missing}; name it one of {', '.join(COLUMNS[missing])}")
    return found


def _row(row: Mapping[str, Any], columns: Mapping[str, str | None], line: int) -> dict[str, Any]:
    def read(what: str, kind: Any) -> Any:
        title = columns[what]
        value = (row.get(title) or "").strip() if title else ""
        if not value and what not in REQUIRED:
            return None
        try:
            return kind(value)
        except (ValueError, OverflowError):
            raise WorkloadError(f"line {line}: {title} is `{value}`; give {_wanted(what)}") from None

    return {
        "line": line,
        "name": read("name", _name),
        "arrival": read("arrival", _seconds),
        **{what: read(what, _count) for what in ("workers", "bytes", "iterations")},
        "compute_s": read("compute_s", float),
    }


def _wanted(what: str) -> str:
    return "seconds, or a date and time" if what == "arrival" else "a number"


def _count(text: str) -> int:
    return round(float(text))


def _name(text: str) -> str:
    """The end of a long id, which tells jobs apart where the start is a cluster's."""
    return "".join(letter if letter.isalnum() else "-" for letter in text)[-32:].lstrip("-") or "job"


def _seconds(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        moment = datetime.fromisoformat(text)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
