"""`wiresum bench schedule`: gaps, completions, set-ups and CPU seconds, all schedulers on the same instances."""

from __future__ import annotations

import statistics
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from wiresum.bench.result import Ratio, Report, Result
from wiresum.bench.schedule.command import Options
from wiresum.bench.schedule.instances import Case, instance
from wiresum.schedule import WITHOUT_SLOTS, Timetable
from wiresum.schedule import schedule as ask
from wiresum.schedule.fewest import fewest_setups
from wiresum.schedule.sharp import bound as sharp_bound

Progress = Callable[[str], None]

SMALL = tuple(Case(8, jobs) for jobs in (40, 60, 80, 100))
"""Ports and places are scarce; 30 % of the jobs are in two units."""
_LARGE = Case(64, 1400, ports=24, switch_gbit=2560.0, places=4, spread=0.0)
LARGE = (
    replace(_LARGE, slot_s=0.2, dark_s=0.01),
    replace(_LARGE, ports=8, slot_s=0.2, dark_s=0.01, spread=0.1),
    replace(_LARGE, spread=0.3, data=20.0),
    replace(_LARGE, jobs=1000, ports=12, places=2, spread=0.2, data=10.0),
    replace(_LARGE, jobs=800, slot_s=0.1, dark_s=0.01),
)
RIVALS: dict[str, dict[str, float]] = {"window": {}, "window, steps of 1 Gbit/s": {"step_bps": 1e9}, "fcfs": {}}
PERCENT = 100.0


def measure(options: Options, progress: Progress) -> Report:
    """Schedules all instances by `turns` and its rivals."""
    runs: dict[tuple[str, str], list[float]] = defaultdict(list)
    late = 0
    for cases, seeds, is_small in ((SMALL, options.seeds, True), (LARGE, options.large_seeds, False)):
        for case in cases:
            for seed in range(1, seeds + 1):
                late += _instance(case, seed, options.time_limit_s if is_small else None, runs)
            progress(f"{case.name}: done")
    results = [Result(f"{case}: {what}", _unit(what), values) for (case, what), values in runs.items()]
    return Report(
        "schedule",
        {"seeds": options.seeds, "large_seeds": options.large_seeds},
        results,
        list(_ratios(runs)),
        notes=[
            f"turns was complete after a rival in {late} instances",
            "gaps of 8 units are to the bound in whole numbers (HiGHS), of 64 units to the one by prices",
        ],
    )


def _instance(case: Case, seed: int, time_limit_s: float | None, runs: dict[tuple[str, str], list[float]]) -> bool:
    """One instance by everybody; returns whether a rival was complete before `turns`."""
    asked = instance(case, seed)
    ours, seconds = _timed(partial(ask, asked, "turns"))
    bound_s = ours.bound_s or 0.0
    if time_limit_s is not None:
        bound_s = max(bound_s, sharp_bound(asked, ours.cost.completion_s, time_limit_s))
    slots_late = (ours.cost.completion_s - bound_s) / case.slot_s

    def add(what: str, value: float) -> None:
        runs[case.name, what].append(value)

    if time_limit_s is not None:
        _beside_slots(asked, ours, add)
        if least := fewest_setups(asked, ours.cost.completion_s, time_limit_s):
            add("set-ups over the least that any schedule needs", ours.cost.setups / least)
    add("gap of turns", PERCENT * (ours.cost.completion_s / bound_s - 1))
    add("slots above the bound", slots_late)
    add("CPU of turns with its bound", seconds)
    is_late = False
    for name, options in RIVALS.items():
        known: dict[str, Any] = {"bound": False, **options}
        rival, took = _timed(partial(ask, asked, name.partition(",")[0], **known))
        add(f"gap of {name}", PERCENT * (rival.cost.completion_s / bound_s - 1))
        add(f"CPU of {name}", took)
        if rival.cost.setups:
            add(f"set-ups over those of {name}", ours.cost.setups / rival.cost.setups)
        is_late |= rival.cost.completion_s < ours.cost.completion_s * (1 - 1e-9)
    return is_late


def _beside_slots(asked: dict[str, Any], ours: Timetable, add: Callable[[str, float], None]) -> None:
    """The same jobs without slots, and with sums in every unit: over what `turns` does in slots and without trees."""
    trees = ask({**asked, "trees": True}, "turns", bound=False)
    add("completion with trees over that without", trees.cost.completion_s / ours.cost.completion_s)
    found, seconds = _timed(partial(ask, {**asked, "slots": False}, WITHOUT_SLOTS))
    both = ask({**asked, "slots": False, "trees": True}, WITHOUT_SLOTS, bound=False)
    add("gap of events", PERCENT * (found.gap or 0.0))
    add("completion of events over that of turns", found.cost.completion_s / ours.cost.completion_s)
    add("completion of events with trees over that without", both.cost.completion_s / found.cost.completion_s)
    add("CPU of events with its bound", seconds)
    if ours.cost.setups:
        add("set-ups of events over those of turns", found.cost.setups / ours.cost.setups)


def _timed(run: Callable[[], Timetable]) -> tuple[Timetable, float]:
    """An answer and the CPU seconds of this process that it took."""
    began_s = time.process_time()
    return run(), time.process_time() - began_s


def _unit(what: str) -> str:
    kinds = {"gap": "%", "CPU": "s", "slots": "slots"}
    return next((unit for start, unit in kinds.items() if what.startswith(start)), "ratio")


def _ratios(runs: dict[tuple[str, str], list[float]]) -> list[Ratio]:
    """Over all instances with 8, and with 64 units."""
    ratios = []
    for units in (8, 64):
        for what in (
            "gap of turns",
            "set-ups over those of window",
            "set-ups over those of fcfs",
            "set-ups over the least that any schedule needs",
        ):
            found = [
                value
                for (case, name), values in runs.items()
                if f" {units} units" in case and name == what
                for value in values
            ]
            if found:
                ratios.append(Ratio(f"{units} units, {what}: mean", statistics.mean(found)))
                ratios.append(Ratio(f"{units} units, {what}: worst", max(found)))
    return ratios
