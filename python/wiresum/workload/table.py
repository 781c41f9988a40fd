"""Reads jobs from a table, as clusters publish them: one row for each job, with its arrival and its GPUs.

Columns go by the names that published traces have (Philly, Helios, Lingjun and others); what a table lacks is drawn or
given. It says nothing of locations: jobs are placed in as few units as possible, in the order in which they come.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from random import Random
from typing import Any

from wiresum.document import MAX_COUNT
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
WANTED = {
    "arrival": "seconds, or a date and time",
    "workers": f"a number from 0 to {MAX_COUNT}; part of a GPU counts as one",
    "bytes": "a whole number",
    "iterations": "a whole number",
    "compute_s": "a number of seconds",
}
"""What each column should have."""
MAX_SHOWN = 60
"""Letters of a value that an error shows."""

Row = dict[str, Any]
"""A job of the table: its line, and the value of each column."""


def table(
    text: str,
    topology: Topology,
    size_bytes: tuple[int, int],
    *,
    name: str = "table",
    spread: float = 0.0,
    by_host: bool = False,
    seed: int = 0,
    tell: Callable[[str], None] = lambda _: None,
) -> Workload:
    """Stars of a table with a header, comma-separated. Arrivals count from the first one; rows may be in any order.

    Rows without a GPU are left out, as their jobs send no gradients. A part of a GPU is a whole worker.

    Args:
        text: of the table.
        topology: where the jobs run.
        size_bytes: least and most bytes of a worker's gradient, drawn for each job of a table without such a column.
        name: of the workload.
        spread: as in `poisson`.
        by_host: likewise.
        seed: of sizes and locations.
        tell: receives a sentence about rows that are not in the workload as they are in the table.

    Raises:
        WorkloadError: a column is missing, or a value is none; the message names the line.
    """
    read = list(_rows(text))
    rows = sorted((row for row in read if row["workers"] > 0), key=lambda row: float(row["arrival"]))
    if not rows:
        raise WorkloadError("the table has no job with workers; check its column of GPUs")
    _tell_changes(read, tell)
    names = _names(rows)
    random = Random(seed)
    placer = Placer(units_of(topology), random, spread, by_host)
    jobs = [
        WorkloadJob.of_line(
            row["line"],
            name=own_name,
            arrival_s=round(row["arrival"] - rows[0]["arrival"], 6),
            bytes=random.randint(*size_bytes) if row["bytes"] is None else row["bytes"],
            workers=_places(placer, row),
            server=placer.server(),
            iterations=1 if row["iterations"] is None else row["iterations"],
            compute_s=0.0 if row["compute_s"] is None else row["compute_s"],
        )
        for own_name, row in zip(names, rows, strict=True)
    ]
    return Workload.build(name=name, jobs=jobs)


def _rows(text: str) -> Iterator[Row]:
    """Every row, each with the number of its last line."""
    reader = csv.DictReader(io.StringIO(text, newline=""))
    try:
        columns = _columns([*(reader.fieldnames or [])])
        for row in reader:
            yield _row(row, columns, reader.line_num)
    except csv.Error as bad:
        raise WorkloadError(f"after line {reader.line_num}: {bad}; save the table as comma-separated text") from None


def _tell_changes(rows: Sequence[Row], tell: Callable[[str], None]) -> None:
    """Says which jobs are left out, and which have more workers than GPUs."""
    without = [row for row in rows if not row["workers"]]
    parts = [row for row in rows if row["workers"] != row["gpus"]]
    if without:
        first = f"the first one in line {without[0]['line']}"
        tell(f"{len(without)} of {len(rows)} jobs have no GPU and are left out, {first}")
    if parts:
        example = f"{parts[0]['gpus']:g} is {parts[0]['workers']} in line {parts[0]['line']}"
        tell(f"{len(parts)} of {len(rows)} jobs have part of a GPU, which counts as a worker: {example}")


def _names(rows: Sequence[Row]) -> list[str]:
    """A name for each job, by its id or else by its number.

    Raises:
        WorkloadError: two jobs would have the same one.
    """
    owners: dict[str, Row] = {}
    for number, row in enumerate(rows, 1):
        name = f"j{number}" if row["name"] is None else _name(row["name"])
        other = owners.setdefault(name, row)
        if other is not row:
            first, second = sorted((other, row), key=lambda one: int(one["line"]))
            ids = " and ".join(f"{one['name'] or 'without an id'} (line {one['line']})" for one in (first, second))
            raise WorkloadError(f"the jobs {ids} both have the name {name} here; give one of them another id")
    return list(owners)


def _places(placer: Placer, row: Row) -> dict[str, int]:
    try:
        return placer.workers(row["workers"])
    except WorkloadError as full:
        raise WorkloadError(f"line {row['line']}: {full}") from None


def _columns(header: Sequence[str]) -> dict[str, str | None]:
    known = {title.strip().lower(): title for title in header}
    found = {what: next((known[one] for one in names if one in known), None) for what, names in COLUMNS.items()}
    missing = next((what for what in REQUIRED if found[what] is None), None)
    if missing is not None:
        raise WorkloadError(f"line 1: no column for {missing}; name it one of {', '.join(COLUMNS[missing])}")
    return found


def _row(row: Mapping[str, Any], columns: Mapping[str, str | None], line: int) -> Row:
    def read(what: str, kind: Any) -> Any:
        title = columns[what]
        value = (row.get(title) or "").strip() if title else ""
        if not value and what not in REQUIRED:
            return None
        try:
            return kind(value)
        except (ValueError, OverflowError):
            raise WorkloadError(f"line {line}: {title} is `{value[:MAX_SHOWN]}`; give {WANTED[what]}") from None

    gpus = read("workers", _gpus)
    return {
        "line": line,
        "name": read("name", str),
        "arrival": read("arrival", _seconds),
        "gpus": gpus,
        "workers": math.ceil(gpus),
        **{what: read(what, _whole) for what in ("bytes", "iterations")},
        "compute_s": read("compute_s", _finite),
    }


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(text)
    return number


def _gpus(text: str) -> float:
    number = _finite(text)
    if not 0 <= number <= MAX_COUNT:
        raise ValueError(text)
    return number


def _whole(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        number = _finite(text)
        if not number.is_integer():
            raise
        return int(number)


def _name(text: str) -> str:
    """The end of a long id, which tells jobs apart where the start is a cluster's."""
    return "".join(letter if letter.isalnum() else "-" for letter in text)[-32:].lstrip("-") or "job"


def _seconds(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        moment = datetime.fromisoformat(text)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    if not math.isfinite(number):
        raise ValueError(text)
    return number
