"""Traces as people write them: `criteo:scale=0.1,batch=512`."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wiresum.errors import TraceError
from wiresum.sparse import FILE_TRACES, TRACES
from wiresum.sparse.synthetic import of_tables

if TYPE_CHECKING:
    from wiresum.plan.tables import Tables
    from wiresum.sparse.trace import Trace

LIMITS: dict[str, tuple[float, float]] = {
    "rows": (1, 1 << 31),
    "s": (0, 4),
    "features": (1, 10_000),
    "batch": (1, 1 << 22),
    "dim": (1, 256),
    "drift": (0, 1),
    "top": (1, 1_000_000),
    "day": (0, 1_000_000),
    "swing": (0, 1),
    "scale": (1e-6, 1),
    "samples": (1, 1 << 26),
    "seed": (0, (1 << 63) - 1),
}
"""Least and most of each field. 2³¹ rows keep products of rows and factors below 2⁶³; a batch of 2²² with 100 lookups
takes 3 GB; a row of 256 float32 fits a packet; 2²⁶ samples of a file are 13 GB."""


OF_TABLES = "tables"
"""The trace of tables that are given, where nothing is known about them but their rows."""


def parse(text: str, seed: int | None = None, data_dir: Path | None = None, tables: Tables | None = None) -> Trace:
    """Makes a trace.

    Args:
        text: name, alone or with fields.
        seed: instead of the description's.
        data_dir: folder with the original files, for traces that can be read.
        tables: of a model, for the trace `tables`; other traces take them in place of their own.

    Raises:
        TraceError: there is no trace of that name, or a field that it does not take; the message names the field.
    """
    name, _, rest = text.partition(":")
    known = TRACES if data_dir is None else FILE_TRACES
    make: Callable[..., Trace]
    if name == OF_TABLES and tables is not None:
        make = partial(of_tables, tables)
    elif name not in known:
        raise TraceError(_unknown(name, data_dir))
    else:
        make = known[name]
    fields = {
        key: type(parameter.default)
        for key, parameter in inspect.signature(make).parameters.items()
        if parameter.default is not inspect.Parameter.empty
    }
    given: dict[str, Any] = {}
    for part in filter(None, rest.split(",")):
        key, _, value = part.partition("=")
        if key not in fields:
            raise TraceError(f"{key}: the trace {name} has no such field; it has {', '.join(fields)}")
        if key in given:
            raise TraceError(f"{key}: is given twice; leave one out")
        given[key] = _number(key, value, fields[key])
    if seed is not None:
        given["seed"] = _number("seed", str(seed), int)
    made = make(**given) if data_dir is None else make(data_dir, **given)
    if tables is not None and name != OF_TABLES:
        made.adopt(tables)
    return made


def _unknown(name: str, data_dir: Path | None) -> str:
    if data_dir is not None:
        readable = ", ".join(FILE_TRACES)
        return f"{name}: no files of such a trace can be read; leave --data-dir out, or choose from {readable}"
    if name == OF_TABLES:
        return f"{name}: is the trace of tables that are given; name them with --tables"
    if name in FILE_TRACES:
        return f"{name}: is read from a file; give its folder with --data-dir"
    return f"there is no trace {name}; choose from {', '.join(TRACES)}"


def _number(key: str, text: str, kind: type[float] | type[int]) -> float:
    least, most = LIMITS[key]
    try:
        value = kind(text)
    except ValueError:
        value = most + 1
    if not least <= value <= most:
        what = "a whole number" if kind is int else "a number"
        raise TraceError(f"{key}: {text or 'nothing'} is not {what} from {least:g} to {most:g}; write {key}=VALUE")
    return value
