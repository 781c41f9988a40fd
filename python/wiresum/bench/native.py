"""Benchmarks whose loops are in Rust and C: the codec and the aggregator."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from wiresum import _native
from wiresum.bench.result import Ratio, Report, Result
from wiresum.errors import SupportError

AGGREGATOR_AIM_NS = 120
"""XDP, 256 values, hot slot: parse, duplicate test, add and write-back."""
SWITCH_AIM_RATIO = 1.3
"""A switch policy's time over that of `cache`."""
CODEC_AIM_GBPS = 8
"""float32 per core, each way, in cache."""


def codec(runs: int) -> Report:
    """Floats to lanes and back, beside memcpy and the loop that one would write first.

    Args:
        runs: of each loop.
    """
    results = [to_result(row) for row in _native.bench_codec(runs)]
    return Report("codec", {"runs": runs, "aim_gbps": CODEC_AIM_GBPS}, results, codec_ratios(results))


def aggregator(runs: int) -> Report:
    """One packet through each implementation of the aggregator, hot and cold; and XDP on several CPUs at once.

    Args:
        runs: of each case.
    """
    rows, notes = _native.bench_aggregator(runs), []
    try:
        rows = _native.bench_xdp(runs) + rows + _native.bench_scaling(runs)
    except SupportError as missing:
        notes.append(f"the kernel was not measured: {missing}")
    results = [to_result(row) for row in rows]
    ratios = aggregator_ratios(results) + scaling_ratios(results)
    return Report("aggregator", {"runs": runs, "aim_ns": AGGREGATOR_AIM_NS}, results, ratios, notes=notes)


def switch(runs: int) -> Report:
    """One contribution through the kernel's switch under each policy, beside `cache` in the same run.

    Args:
        runs: of each case.

    Raises:
        SupportError: the kernel's programs were not built, or may not be loaded.
    """
    results = [to_result(row) for row in _native.bench_switch(runs)]
    parameters = {"runs": runs, "aim_over_cache": SWITCH_AIM_RATIO}
    notes = [
        "`feed` is the making of packets, a part of every policy's figure",
        "`admitted` is `cache` that looks for job and neighbour and counts for the job, `bounded` with a quota as well",
    ]
    return Report("switch", parameters, results, switch_ratios(results), notes=notes)


def switch_ratios(results: Iterable[Result]) -> list[Ratio]:
    """Every policy's time over that of `cache`, both without the making of packets, at equal packets and workers."""
    places = {tuple(r.extra[name] for name in ("policy", "values", "workers")): r for r in results}
    ratios = []
    for (policy, *place), row in places.items():
        feed, cache = places["feed", *place].median, places["cache", *place].median
        if policy not in {"feed", "cache", "aggregator"}:
            ratios.append(Ratio(f"{row.name} / cache", (row.median - feed) / (cache - feed)))
    return ratios


def to_result(row: dict[str, Any]) -> Result:
    """One row of the native module."""
    extra = {key: value for key, value in row.items() if key not in {"name", "unit", "runs"}}
    return Result(row["name"], row["unit"], list(row["runs"]), extra)


def codec_ratios(results: Iterable[Result]) -> list[Ratio]:
    """Each loop over its naive version, where there is one with the same elements, lanes and working set."""
    rows = list(results)
    naive = {key(r): r.median for r in rows if str(r.extra.get("step", "")).startswith("naive ")}
    pairs = [(r, naive.get((f"naive {r.extra.get('step')}", *key(r)[1:]))) for r in rows]
    return [Ratio(f"{r.name} / naive loop", r.median / slow) for r, slow in pairs if slow]


def key(result: Result) -> tuple[Any, ...]:
    """What makes two loops comparable."""
    return tuple(result.extra.get(name) for name in ("step", "element", "lanes", "working_set_bytes"))


def aggregator_ratios(results: Iterable[Result]) -> list[Ratio]:
    """Every other engine's time over XDP's, for each packet size and working set."""
    rows = [r for r in results if r.unit == "ns"]
    places = {tuple(r.extra[name] for name in ("engine", "values", "working_set", "children")): r for r in rows}
    ratios = []
    for (engine, *place), row in places.items():
        xdp = places.get(("xdp", *place))
        if xdp and engine != "xdp":
            ratios.append(Ratio(f"{row.name} / {xdp.name}", row.median / xdp.median))
    return ratios


def scaling_ratios(results: Iterable[Result]) -> list[Ratio]:
    """The rate of several CPUs over that of one, for each placement, packet size and batch."""
    rows = [r for r in results if "placement" in r.extra]
    places = {tuple(r.extra[name] for name in ("cpus", "placement", "values", "batch")): r for r in rows}
    pairs = [(row, places.get((1, *place))) for (cpus, *place), row in places.items() if cpus > 1]
    return [Ratio(f"{row.name} / 1 CPU", row.median / one.median) for row, one in pairs if one]
