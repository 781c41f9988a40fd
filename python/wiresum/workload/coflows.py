"""Reads traces of the coflow benchmark: a line for each coflow, with the racks of its mappers and reducers.

The first line has the numbers of racks and coflows. Each other line has an id, the arrival in milliseconds, the number
of mappers and their racks, the number of reducers and for each `rack:megabytes`. A reducer gets equal parts from all
mappers. Racks count from 0, and a megabyte has 10⁶ bytes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from wiresum.document import MAX_INTEGER
from wiresum.errors import WorkloadError
from wiresum.workload.model import Workload, WorkloadJob

MEGABYTE = 10**6
MAX_RACKS = 1 << 16
"""A first line with more is not that of a trace."""
COLUMNS = "id, arrival in ms, number of mappers, their racks, number of reducers, rack:megabytes of each reducer"
"""Columns of a line of the benchmark."""
MAX_SHOWN = 40
"""Letters of a line or a value that an error shows."""


def coflows(text: str, units: Sequence[str], name: str = "coflows") -> Workload:
    """A trace on any number of units: rack r is in unit r modulo their number.

    Args:
        text: of the trace.
        units: names of the units.
        name: of the workload.

    Raises:
        WorkloadError: it is no such trace; the message names the line.
    """
    lines = [(number, line.split()) for number, line in enumerate(text.splitlines(), 1) if line.strip()]
    what = "the numbers of racks and coflows"
    racks, count = _whole(_take(iter(lines[0][1] if lines else []), 2, 1, what), 1, what)
    if not 0 < racks <= MAX_RACKS or len(lines) - 1 != count:
        said = f"{racks} racks and {count} coflows, but {len(lines) - 1} lines of coflows follow"
        raise WorkloadError(f"line 1: {said}; a trace of the coflow benchmark begins with both numbers")
    jobs = [_coflow(fields, number, racks, units) for number, fields in lines[1:]]
    _check_ids(lines)
    return Workload.build(name=name, jobs=jobs)


def _check_ids(lines: Sequence[tuple[int, list[str]]]) -> None:
    """Requires that no two coflows have one id."""
    numbers: dict[str, int] = {}
    for number, fields in lines[1:]:
        first = numbers.setdefault(fields[0], number)
        if first != number:
            raise WorkloadError(
                f"lines {first} and {number}: two coflows have the id {fields[0][:MAX_SHOWN]}; change one"
            )


def _coflow(fields: list[str], line: int, racks: int, units: Sequence[str]) -> WorkloadJob:
    try:
        return _parsed(fields, line, racks, units)
    except WorkloadError as bad:
        shown = " ".join(fields)
        raise WorkloadError(
            f"{bad}; a line of the coflow benchmark has {COLUMNS}; "
            f"this one is `{shown[:MAX_SHOWN]}{'…' * (len(shown) > MAX_SHOWN)}`, so correct it, or convert the file"
        ) from None


def _parsed(fields: list[str], line: int, racks: int, units: Sequence[str]) -> WorkloadJob:
    rest = iter(fields)
    (identity,) = _take(rest, 1, line, "an id")
    arrival_ms, mappers = _whole(_take(rest, 2, line, "arrival and number of mappers"), line, "arrival and mappers")
    named = _whole(_take(rest, mappers, line, f"{mappers} mappers"), line, "racks of mappers")
    (reducers,) = _whole(_take(rest, 1, line, "the number of reducers"), line, "the number of reducers")
    sinks: Counter[str] = Counter()
    for field in _take(rest, reducers, line, f"{reducers} reducers"):
        rack, size_bytes = _reducer(field, line)
        named.append(rack)
        sinks[units[rack % len(units)]] += size_bytes
    if next(rest, None) is not None:
        raise WorkloadError(f"line {line}: more fields than those of {mappers} mappers and {reducers} reducers")
    outside = next((rack for rack in named if not 0 <= rack < racks), None)
    if outside is not None:
        raise WorkloadError(f"line {line}: rack {outside} of {racks}; racks count from 0")
    return WorkloadJob.of_line(
        line,
        name=f"c{identity}",
        arrival_s=arrival_ms / 1000,
        synchrony="coflow",
        workers=dict(Counter(units[rack % len(units)] for rack in named[:mappers])),
        sinks=dict(sinks),
    )


def _reducer(field: str, line: int) -> tuple[int, int]:
    rack, _, megabytes = field.partition(":")
    try:
        size_bytes = round(float(megabytes) * MEGABYTE)
        if size_bytes > 0:
            return int(rack), size_bytes
    except (ValueError, OverflowError):
        pass
    raise WorkloadError(f"line {line}: `{field[:MAX_SHOWN]}` is not a rack and its megabytes, as 17:4.0")


def _take(fields: Iterator[str], count: int, line: int, what: str) -> list[str]:
    taken = [field for _, field in zip(range(count), fields, strict=False)]
    if len(taken) < count or count < 0:
        raise WorkloadError(f"line {line}: it should have {what}, and has {len(taken)}")
    return taken


def _whole(fields: list[str], line: int, what: str) -> list[int]:
    try:
        numbers = [int(field) for field in fields]
    except ValueError:
        raise WorkloadError(f"line {line}: {' '.join(fields)[:60]} should be {what}, as whole numbers") from None
    if not numbers or min(numbers) < 0 or max(numbers) > MAX_INTEGER:
        raise WorkloadError(f"line {line}: {what} should stand here, as numbers from 0 to {MAX_INTEGER}")
    return numbers
