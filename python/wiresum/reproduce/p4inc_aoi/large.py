"""§VII-C, Figs. 8 and 10 to 12: 800 to 1,400 jobs on 64 units, as stated and at a declared load; and sweeps."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

from wiresum.bench.result import Report
from wiresum.bench.schedule.instances import Case
from wiresum.bench.schedule.instances import instance as drawn
from wiresum.reproduce.p4inc_aoi import printed
from wiresum.reproduce.p4inc_aoi.schemes import (
    BLOCKING,
    COMPLETION,
    SCHEMES,
    SETUPS,
    Instance,
    Progress,
    arriving,
    compared,
    draw,
    series,
    sweep,
)
from wiresum.reproduce.row import Benchmark, Figure, Reports, Row

SEEDS = (1,)
STATED = Case(
    printed.UNITS, printed.SWEPT_JOBS, ports=printed.PORTS, switch_gbit=2.0 * 40 * printed.SERVERS_A_UNIT,
    places=printed.PLACES, spread=0.0,
)  # fmt: skip
DECLARED = replace(STATED, ports=4, data=30.0, spread=0.1)
"""Calibrated: the load at which TW and FCFS differ most like the print; each job's bytes are those of 30 iterations, a
unit has 4 ports, a tenth of the jobs is in two units. FCFS blocks, and tears circuits down."""
DECLARED_SCHEMES = {**SCHEMES, **BLOCKING}
UNITS, QUICK_UNITS = (16, 32, 64), (8, 16)
PLACES = (2, 4, 8, 16)
SLOTS_S = (0.5, 1.0, 2.0, 4.0)
QUICK_JOBS = (100,)


def _instance(case: Case, base: Case, seed: int) -> Instance:
    """The jobs of the base, over the slots, ports and places of the case, so that sweeps change one thing."""
    jobs = drawn(base, seed)["jobs"]
    return arriving({**drawn(case, seed), "jobs": jobs}, printed.PER_SLOT, seed)


def _makers(cases: Mapping[str, Case], base: Case | None = None) -> dict[str, Callable[[int], Instance]]:
    return {label: partial(_instance, case, base or case) for label, case in cases.items()}


def _jobs(base: Case, quick: bool) -> dict[str, Case]:
    if quick:
        base = replace(base, units=8)
    return {str(jobs): replace(base, jobs=jobs) for jobs in (QUICK_JOBS if quick else printed.LARGE_JOBS)}


def _stated(quick: bool, progress: Progress) -> Report:
    return sweep("stated", _makers(_jobs(STATED, quick)), SEEDS, progress)


def _declared(quick: bool, progress: Progress) -> Report:
    return sweep("declared", _makers(_jobs(DECLARED, quick)), SEEDS, progress, DECLARED_SCHEMES)


def _few(quick: bool) -> Case:
    return replace(DECLARED, units=8, jobs=QUICK_JOBS[0]) if quick else DECLARED


def _units(quick: bool, progress: Progress) -> Report:
    cases = {str(units): replace(_few(quick), units=units) for units in (QUICK_UNITS if quick else UNITS)}
    return sweep("units", _makers(cases), SEEDS, progress, DECLARED_SCHEMES)


def _places(quick: bool, progress: Progress) -> Report:
    cases = {str(places): replace(_few(quick), places=places) for places in PLACES}
    return sweep("places", _makers(cases, _few(quick)), SEEDS, progress, DECLARED_SCHEMES)


def _slots(quick: bool, progress: Progress) -> Report:
    cases = {f"{slot_s:g}": replace(_few(quick), slot_s=slot_s) for slot_s in SLOTS_S}
    return sweep("slots", _makers(cases, _few(quick)), SEEDS, progress, DECLARED_SCHEMES)


def _jobs_row(reports: Reports) -> str:
    stated, declared = reports.report("stated"), reports.report("declared")
    return (
        f"as stated: set-ups {series(stated, SETUPS)}; completion {series(stated, COMPLETION, 's')}. At the declared "
        f"load (calibration, no finding): set-ups {compared(declared, SETUPS)}; completion "
        f"{compared(declared, COMPLETION)}"
    )


def _remark() -> str:
    return (
        "20 jobs a slot leave 64 units × 24 ports nearly idle: as stated everybody ends with the last arrival; 1,400 "
        f"jobs have 10,500 workers for {printed.UNITS * printed.SERVERS_A_UNIT:,} servers, so servers hold several; "
        "the text cites Fig. 6 for 92.8 %"
    )


def _sweeps(reports: Reports) -> str:
    said = {"units": "Fig. 10, units", "places": "Fig. 11, places", "slots": "Fig. 12, slots in s"}
    parts = []
    for name, title in said.items():
        report = reports.report(name)
        parts.append(f"{title}: set-ups {series(report, SETUPS)}; completion {series(report, COMPLETION, 's')}")
    return f"at the declared load, {printed.SWEPT_JOBS} jobs: {'. '.join(parts)}"


def _benchmark(row: str, seconds: float, measure: Callable[[bool, Progress], Report]) -> Benchmark:
    return Benchmark(f"wiresum reproduce p4inc-aoi --rows {row}", seconds, 5, measure, "64 units, planned slot by slot")


BENCHMARKS = {
    "stated": _benchmark("A8", 30, _stated),
    "declared": _benchmark("A8", 60, _declared),
    "units": _benchmark("A10", 60, _units),
    "places": _benchmark("A10", 60, _places),
    "slots": _benchmark("A10", 60, _slots),
}
FIGURES = (
    Figure("Fig. 8, as stated", "fig-8-stated.png", "stated", partial(draw, axis="jobs")),
    Figure("Fig. 8, at the declared load", "fig-8-declared.png", "declared", partial(draw, axis="jobs")),
    Figure("Fig. 10", "fig-10-units.png", "units", partial(draw, axis="units")),
    Figure("Fig. 11", "fig-11-places.png", "places", partial(draw, axis="jobs that a switch sums")),
    Figure("Fig. 12", "fig-12-slots.png", "slots", partial(draw, axis="slot (s)")),
)
ROWS = (
    Row(
        "A8", "800 to 1,400 jobs on 64 units: AOI reconfigurations and CT-BTI", "A", "§VII-C, Fig. 8",
        "AOI: INC −55.4 % (FCFS), −50.3 % (TW); TW −92.8, −91.7 % (without, with INC). CT-BTI: TW −86.8, −85.6 %",
        recomputed=_remark, measured=_jobs_row, needs=("stated", "declared"),
    ),
    Row(
        "A10", "sweeps of units, places and slots", "A", "§VII-C, Figs. 10 to 12",
        "more units: both fall; more places: both fall, little beyond 8; longer slots: AOI falls, then is flat, CT-BTI "
        "rises, less for TW", measured=_sweeps, needs=("units", "places", "slots"),
    ),
)  # fmt: skip
