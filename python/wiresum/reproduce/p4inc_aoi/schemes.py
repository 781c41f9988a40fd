"""Who schedules in the paper's figures, a sweep of all of them over instances, and its picture."""

from __future__ import annotations

import random
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wiresum.bench.result import Report, Result
from wiresum.picture import picture
from wiresum.reproduce.words import less, listed
from wiresum.schedule import schedule

Instance = dict[str, Any]
Progress = Callable[[str], None]


@dataclass(frozen=True)
class Scheme:
    """A scheduler, with or without sums in switches.

    Attributes:
        scheduler: its name.
        sums: whether switches sum.
        options: of the scheduler.
    """

    scheduler: str
    sums: bool
    options: Mapping[str, Any]


SCHEMES = {
    "noINC-FCFS": Scheme("fcfs", False, {}),
    "noINC-TW": Scheme("window", False, {}),
    "INC-FCFS": Scheme("fcfs", True, {}),
    "INC-TW": Scheme("window", True, {}),
    "turns": Scheme("turns", True, {"online": True}),
}
"""The paper's four, and `turns` with what is known at each arrival."""
BLOCKING = {
    "noINC-FCFS": Scheme("fcfs", False, {"blocking": True, "keep_circuits": False}),
    "INC-FCFS": Scheme("fcfs", True, {"blocking": True, "keep_circuits": False}),
}
"""FCFS as the declared load has it: nobody overtakes, and circuits go with their job."""
SETUPS, COMPLETION = "set-ups", "completion"


def arriving(instance: Instance, per_s: float, seed: int) -> Instance:
    """The same jobs, as a Poisson process."""
    chance, now_s, jobs = random.Random(seed), 0.0, []
    for job in instance["jobs"]:
        now_s += chance.expovariate(per_s)
        jobs.append({**job, "arrival_s": now_s})
    return {**instance, "jobs": jobs}


def sweep(
    name: str,
    cases: Mapping[str, Callable[[int], Instance]],
    seeds: Sequence[int],
    progress: Progress,
    schemes: Mapping[str, Scheme] = SCHEMES,
) -> Report:
    """Set-ups and completion of all schemes.

    Args:
        name: of the report.
        cases: makers of instances from a seed, by what the figure has on its axis.
        seeds: of the instances.
        progress: is told what is scheduled.
        schemes: by name.
    """
    results = []
    for case, make in cases.items():
        progress(f"{name}: {case}")
        instances = [make(seed) for seed in seeds]
        for scheme, by in schemes.items():
            costs = [
                schedule(instance, by.scheduler, sums=by.sums, bound=False, **by.options).cost for instance in instances
            ]
            known = {"scheme": scheme, "case": case}
            setups = [float(cost.setups) for cost in costs]
            results.append(Result(f"{scheme}, {case}: {SETUPS}", SETUPS, setups, {"what": SETUPS, **known}))
            seconds = [cost.completion_s for cost in costs]
            results.append(Result(f"{scheme}, {case}: {COMPLETION}", "s", seconds, {"what": COMPLETION, **known}))
    return Report(name, {"seeds": len(seeds)}, results)


def values(report: Report, scheme: str, what: str) -> dict[str, float]:
    """Means by case."""
    found = (one for one in report.results if one.extra["scheme"] == scheme and one.extra["what"] == what)
    return {one.extra["case"]: statistics.fmean(one.runs) for one in found}


def saved(report: Report, what: str, ours: str, theirs: str) -> str:
    """The mean reduction over all cases; cases in which the other one has nothing are left out.

    Example:
        `saved(report, "set-ups", "INC-TW", "INC-FCFS")` is as `−12.0 %`
    """
    pairs = zip(values(report, ours, what).values(), values(report, theirs, what).values(), strict=True)
    parts = [1 - mine / other for mine, other in pairs if other > 0]
    return less(statistics.fmean(parts)) if parts else "0 to 0"


def compared(report: Report, what: str) -> str:
    """The paper's four reductions."""
    return listed({
        "INC-FCFS vs noINC-FCFS": saved(report, what, "INC-FCFS", "noINC-FCFS"),
        "INC-TW vs noINC-TW": saved(report, what, "INC-TW", "noINC-TW"),
        "TW vs FCFS without INC": saved(report, what, "noINC-TW", "noINC-FCFS"),
        "and with": saved(report, what, "INC-TW", "INC-FCFS"),
        "turns vs INC-TW": saved(report, what, "turns", "INC-TW"),
    })  # fmt: skip


def series(report: Report, what: str, unit: str = "") -> str:
    """Every scheme's values by case."""
    shown = {}
    for scheme in dict.fromkeys(one.extra["scheme"] for one in report.results):
        shown[scheme] = "/".join(f"{value:.4g}" for value in values(report, scheme, what).values())
    cases = "/".join(dict.fromkeys(one.extra["case"] for one in report.results))
    return f"{cases}: " + listed(shown) + (f" {unit}" if unit else "")


def draw(report: Report, path: Path, axis: str = "") -> None:
    """Set-ups and completion of all schemes by case, as in Figs. 8 to 12.

    Raises:
        SupportError: matplotlib is not installed.
    """
    labels = {SETUPS: "AOI reconfigurations (set-ups)", COMPLETION: "CT-BTI (s)"}
    kinds = list(dict.fromkeys(one.extra["what"] for one in report.results))
    with picture(path, 1, len(kinds), figsize=(4.5 * len(kinds), 3.6), squeeze=False) as (_, axes):
        for one, what in zip(axes[0], kinds, strict=True):
            for scheme in dict.fromkeys(result.extra["scheme"] for result in report.results):
                found = values(report, scheme, what)
                one.plot(list(found), list(found.values()), marker="o", label=scheme)
            one.set(xlabel=axis, ylabel=labels.get(what, what), ylim=(0, None))
            one.spines[["top", "right"]].set_visible(False)
        axes[0][0].legend(frameon=False, fontsize=8)
