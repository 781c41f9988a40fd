"""§IV-B, Eqs. (1) to (11): the programme as printed, and what each of its corrections changes, on small instances."""

from __future__ import annotations

import statistics

from wiresum.bench.result import Report, Result
from wiresum.bench.schedule.instances import Case, instance
from wiresum.reproduce.p4inc_aoi.schemes import Progress
from wiresum.reproduce.row import Benchmark, Reports
from wiresum.reproduce.words import listed
from wiresum.schedule.printed import ALL, CORRECTIONS, claim

CASE = Case(4, 10, ports=2, places=1)
"""So small that HiGHS proves nearly every answer."""
SEEDS, QUICK_SEEDS = (1, 2, 3), (1,)
SECONDS, QUICK_SECONDS = 60.0, 30.0
PRINTED, CORRECTED = "as printed", "with all corrections"
VARIANTS = {
    PRINTED: frozenset[str](),
    CORRECTED: ALL,
    # Eq. (10) is corrected as a whole or as printed; Eq. (7) is for the printed one alone.
    **{f"without `{name}`": ALL - ({name, "light"} if name == "kept" else {name}) for name in CORRECTIONS},
}


def _measure(quick: bool, progress: Progress) -> Report:
    results = []
    for name, corrections in VARIANTS.items():
        progress(name)
        claims = [
            claim(instance(CASE, seed), QUICK_SECONDS if quick else SECONDS, corrections)
            for seed in (QUICK_SEEDS if quick else SEEDS)
        ]
        seconds = [one.completion_s for one in claims if one.completion_s is not None]
        proven = sum(one.is_proven for one in claims)
        results.append(Result(name, "s", seconds or [float("nan")], {"proven": proven, "of": len(claims)}))
    return Report("equations", {"jobs": CASE.jobs, "units": CASE.units}, results)


def said(reports: Reports) -> str:
    """Mean completion of every variant, and how many of its answers are proven."""
    shown = {
        one.name: f"{statistics.fmean(one.runs):.2f} s ({one.extra['proven']} of {one.extra['of']} proven)"
        for one in reports.report("equations").results
    }
    return f"the printed programme on {CASE.jobs} jobs, {CASE.units} units × {CASE.ports} ports: {listed(shown)}"


BENCHMARKS = {
    "equations": Benchmark(
        "wiresum reproduce p4inc-aoi --rows A4", 600, 60, _measure, "four units of two ports, HiGHS"
    )
}  # fmt: skip
