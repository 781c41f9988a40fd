"""§VII-C, Table I: 40 to 100 jobs on 8 units, by the exact programme, the proven bound and everybody."""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TypeVar

from wiresum._native import schedule_bound
from wiresum.bench import bars
from wiresum.bench.result import Report, Result
from wiresum.bench.schedule.instances import Case, instance
from wiresum.errors import WiresumError
from wiresum.reproduce.p4inc_aoi import equations, printed
from wiresum.reproduce.p4inc_aoi.schemes import Progress
from wiresum.reproduce.row import Benchmark, Figure, Reports, Row
from wiresum.reproduce.words import listed, percent
from wiresum.schedule import schedule
from wiresum.schedule.sharp import bound

Answer = TypeVar("Answer")
PORTS = 7
"""The fewest with which circuits can be uniform over all pairs, as NoRecon has them."""
DATA = 4.0
"""Iterations that each job sends at once, so that horizons have several slots, as the printed ones have."""
JOBS, QUICK_JOBS = (40, 50, 60, 80, 100), (40,)
EXACT_JOBS = 60
"""The largest for which the paper has an optimum; beyond it only the bound is computed."""
SEEDS, QUICK_SEEDS = (1, 2), (1,)
EXACT_S, BOUND_S, QUICK_S = 30.0, 10.0, 4.0
"""Seconds that HiGHS has."""
HEURISTICS = {"INC-TW": "window", "INC-FCFS": "fcfs", "NoRecon": "window-fixed", "turns": "turns"}


def _measure(quick: bool, progress: Progress) -> Report:
    results = []
    for jobs in QUICK_JOBS if quick else JOBS:
        runs: dict[str, list[tuple[float, int]]] = {}
        for seed in QUICK_SEEDS if quick else SEEDS:
            progress(f"{jobs} jobs, seed {seed}")
            asked = instance(Case(8, jobs, ports=PORTS, data=DATA), seed)
            for name, scheduler in HEURISTICS.items():
                cost = schedule(asked, scheduler, bound=False).cost
                runs.setdefault(name, []).append((cost.completion_s, cost.setups))
            exact_s, bound_s = (QUICK_S, QUICK_S) if quick else (EXACT_S, BOUND_S)
            exact = _solved(partial(schedule, asked, "exact", exact_s)) if jobs <= EXACT_JOBS else None
            least_s = _solved(partial(bound, asked, runs["turns"][-1][0], bound_s)) or schedule_bound(json.dumps(asked))
            if exact:
                runs.setdefault("exact", []).append((exact.cost.completion_s, exact.cost.setups))
                least_s = max(least_s, exact.bound_s or 0.0)
            runs.setdefault("bound", []).append((least_s, 0))
        complete = {name: found for name, found in runs.items() if len(found) == len(runs["bound"])}
        for name, found in complete.items():
            known = {"jobs": jobs, "scheme": name, "setups": [setups for _, setups in found]}
            results.append(Result(f"{name}, {jobs} jobs", "s", [seconds for seconds, _ in found], known))
    return Report("small", {"units": 8, "seeds": len(SEEDS)}, results)


def _solved(ask: Callable[[], Answer]) -> Answer | None:
    """What HiGHS answers; None if it found nothing in its time."""
    try:
        return ask()
    except WiresumError:
        return None


def _by_jobs(report: Report, name: str) -> dict[int, Result]:
    return {one.extra["jobs"]: one for one in report.results if one.extra["scheme"] == name}


def gaps(report: Report, name: str) -> dict[int, float]:
    """Mean gap to the bound by number of jobs."""
    bounds = _by_jobs(report, "bound")
    return {
        jobs: statistics.fmean(value / least - 1 for value, least in zip(one.runs, bounds[jobs].runs, strict=True))
        for jobs, one in _by_jobs(report, name).items()
    }


def _said(reports: Reports, name: str) -> str:
    report = reports.report("small")
    found = _by_jobs(report, name)
    seconds = "/".join(f"{statistics.fmean(one.runs):.2f}" for one in found.values())
    apart = "/".join(percent(gap) for gap in gaps(report, name).values())
    setups = "/".join(f"{statistics.fmean(one.extra['setups']):.0f}" for one in found.values())
    return f"{'/'.join(map(str, found))} jobs: {seconds} s, {apart} above the bound, set-ups {setups}"


def _exact(reports: Reports) -> str:
    least = reports.report("small")
    bounds = "/".join(f"{statistics.fmean(one.runs):.2f}" for one in _by_jobs(least, "bound").values())
    exact = _said(reports, "exact") if _by_jobs(least, "exact") else "nothing found in time"
    return f"exact: {exact}; bound {bounds} s; turns: {_said(reports, 'turns')}; {equations.said(reports)}"


def _window(reports: Reports) -> str:
    return _said(reports, "INC-TW")


def _fcfs(reports: Reports) -> str:
    return _said(reports, "INC-FCFS")


def _fixed(reports: Reports) -> str:
    report = reports.report("small")
    windows = _by_jobs(report, "INC-TW")
    more = {
        str(jobs): percent(statistics.fmean(one.runs) / statistics.fmean(windows[jobs].runs) - 1)
        for jobs, one in _by_jobs(report, "NoRecon").items()
    }
    return f"{_said(reports, 'NoRecon')}; against INC-TW {listed(more)}"


def _true_gaps(heuristic: dict[int, float]) -> str:
    """Gaps over the optimum; the paper divides by the heuristic's own value."""
    true = {str(jobs): percent(heuristic[jobs] / best - 1) for jobs, best in printed.EXACT_S.items()}
    return f"(H − O)/O instead of (H − O)/H: {listed(true)}"


def draw(report: Report, path: Path) -> None:
    """Completion by number of jobs, with the bound as a mark.

    Raises:
        SupportError: matplotlib is not installed.
    """
    bounds = _by_jobs(report, "bound")
    shown = {name: _by_jobs(report, name) for name in ("turns", *list(HEURISTICS)[:3])}
    means = {name: [statistics.fmean(one.runs) for one in found.values()] for name, found in shown.items()}
    least = [statistics.fmean(one.runs) for one in bounds.values()]
    bars.draw(path, [f"{jobs} jobs" for jobs in bounds], means, dict.fromkeys(means, least), "CT-BTI (s)")


BENCHMARKS = {
    **equations.BENCHMARKS,
    "small": Benchmark(
        "wiresum reproduce p4inc-aoi --rows A4,A5", 360, 15, _measure, "8 units of 7 ports at 40 Gbit/s, planned"
    ),
}
FIGURES = (Figure("Table I", "table-1-small.png", "small", draw),)
ROWS = (
    Row(
        "A4", "MILP on 8 units: CT-BTI, set-ups", "A", "§VII-C, Table I",
        "40/50/60 jobs: 3.4/6.9/14.8 s, 1/1/1; no result beyond",
        recomputed=lambda: "capacities, horizon, update times and darkness are not stated: instances are ours, the "
        "same for all schemes, with 7 ports, the fewest for uniform circuits; places are used in turns, as Eq. (3) has",
        measured=_exact, needs=("small", "equations"),
    ),
    Row(
        "A5", "INC-FCFS on 8 units: CT-BTI, gap, set-ups", "A", "§VII-C, Table I",
        "40/50/60/80/100 jobs: 6.0/11.2/23.8/29.9/31.8 s; 43.3/38.4/37.8 %; 1/1/2/5/11",
        recomputed=lambda: _true_gaps(printed.FCFS_S), measured=_fcfs, needs=("small",),
    ),
    Row(
        "A6", "INC-TW on 8 units: CT-BTI, gap, set-ups", "A", "§VII-C, Table I",
        "4.1/8.2/17.7/19.8/26.7 s; 17.1/15.9/16.4 %; 1/1/2/4/5",
        recomputed=lambda: _true_gaps(printed.WINDOW_S), measured=_window, needs=("small",),
    ),
    Row(
        "A7", "INC-TW-NoRecon on 8 units: CT-BTI, gap, set-ups", "A", "§VII-C, Table I",
        "5.1/9.8/21.7/21.7/30.7 s; 33.3/29.6/31.8 %; 0", recomputed=lambda: _true_gaps(printed.FIXED_S),
        measured=_fixed, needs=("small",),
    ),
)  # fmt: skip
