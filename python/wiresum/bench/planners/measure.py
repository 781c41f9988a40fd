"""`wiresum bench planners`: how good, how feasible and how fast planners of switch networks are, as networks grow."""

from __future__ import annotations

import resource
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from wiresum.bench.planners import replanning
from wiresum.bench.planners.cbc import solve_as_printed
from wiresum.bench.planners.command import Options
from wiresum.bench.result import Ratio, Report, Result
from wiresum.plan.assignment import Assignment, Instance, excess_memory, validate
from wiresum.plan.job import Job
from wiresum.plan.models import equal_parts
from wiresum.plan.options import PlanOptions
from wiresum.planners.comparison import sample_workers
from wiresum.planners.goat.exact import goat
from wiresum.planners.goat.krgs import Corrected, Printed
from wiresum.planners.goat.problem import Problem
from wiresum.planners.goat.theorems import Bounds
from wiresum.topology.generators.fat_tree import fat_tree
from wiresum.topology.generators.leaf_spine import leaf_spine
from wiresum.topology.model import Topology

MODEL_BYTES = 221_000_000
"""A worker's gradient (GOAT §VII-C)."""
LARGE_MODEL_BYTES = 800_000_000
WORKER_SEED = 1
KIB = 1024
TURNS, SHORT_S = 5, 10.0
"""Solutions by ours and by the rival, in turns, where one of the rival's takes no longer."""

Progress = Callable[[str], None]


@dataclass(frozen=True)
class Case:
    """A network and a job.

    Attributes:
        name: as `fat-tree, 191 workers × 110 sub-models × 16 switches`.
        topology: makes it.
        workers: chosen at random.
        sub_models: of equal size.
        model_bytes: of all of them.
    """

    name: str
    topology: Callable[[], Topology]
    workers: int
    sub_models: int
    model_bytes: int = MODEL_BYTES

    def instance(self) -> Instance:
        """The question."""
        topology = self.topology()
        chosen = sample_workers(topology, self.workers, WORKER_SEED)
        return Instance.of(
            topology, Job(workers=chosen, sub_models=equal_parts("m", self.model_bytes, self.sub_models))
        )


PAPER = (
    Case("leaf-spine, 35 workers × 16 sub-models × 5 switches", lambda: leaf_spine(programmable=0.25), 35, 16),
    Case("fat-tree k=8, 70 workers × 16 sub-models × 16 switches", lambda: fat_tree(8, 6), 70, 16),
    Case("fat-tree k=8, 191 workers × 110 sub-models × 16 switches", lambda: fat_tree(8, 6), 191, 110),
)
"""The paper's two networks with its programmable switches and memories; the last is its largest."""
LARGE = Case(
    "fat-tree k=32, 4096 workers × 400 sub-models × 256 switches", lambda: fat_tree(32), 4096, 400, LARGE_MODEL_BYTES
)


def measure(options: Options, progress: Progress = lambda line: None) -> Report:
    """Plans every network with every method."""
    results: list[Result] = []
    ratios: list[Ratio] = []
    notes: list[str] = []
    if options.large:  # First, so that the peak of memory is its own.
        results += _large(options, progress)
    for case in PAPER:
        for result, ratio in _paper(case, options, progress, notes):
            results.append(result)
            ratios += ratio
    rival_limit_s = options.rival_limit_s if options.rival else 0.0
    parameters = {"seeds": options.seeds, "time_limit_s": options.time_limit_s, "rival_limit_s": rival_limit_s}
    return Report("planners", parameters, results, ratios, notes=notes)


def _large(options: Options, progress: Progress) -> Iterator[Result]:
    instance = LARGE.instance()
    found, result = _timed(LARGE, instance, "goat", options)
    peak_kib = sum(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    measured = Result(result.name, "s", result.runs, {**result.extra, "peak_bytes": peak_kib * KIB})
    progress(f"{measured.name}: {_shown(measured)}, peak {peak_kib * KIB / 1e9:.1f} GB")
    yield measured
    for what, topology in replanning.failures(found):
        kept = replanning.measure(f"{LARGE.name}: {what}", found, topology)
        progress(f"{kept.name}: {kept.median:.2f} s, {kept.extra['moved_share']:.2%} moved")
        yield kept


def _paper(
    case: Case, options: Options, progress: Progress, notes: list[str]
) -> Iterator[tuple[Result, Sequence[Ratio]]]:
    instance = case.instance()
    best, exact = _timed(case, instance, "goat", options)
    progress(f"{exact.name}: {_shown(exact)}")
    yield exact, ()
    least = best.solution.value
    rounded = _krgs(case, instance, least, options)
    progress(f"{rounded.name}: {_over(rounded)}")
    yield rounded, ()
    printed = _printed(case, instance, least, options)
    progress(f"{printed.name}: {_over(printed)}, memory up to {printed.extra['max_memory_share']:.2f}")
    yield printed, ()
    bounds = Bounds.of(Problem.of(instance))
    notes.append(
        f"{case.name}: Theorem 5 allows {bounds.memory_factor:.2f} × memory (ν {bounds.nu:.1f}, states "
        f"{bounds.stated_factor:.2f}); as printed it took {printed.extra['max_memory_share']:.2f}"
    )
    if options.rival:
        yield _against(case, instance, exact, least, options, progress=progress)


def _against(
    case: Case, instance: Instance, exact: Result, least: float, options: Options, *, progress: Progress
) -> tuple[Result, Sequence[Ratio]]:
    """The rival, as often as ours; in turns where that takes little time."""
    ours, theirs = list(exact.runs), [solve_as_printed(instance, options.rival_limit_s)]
    while len(theirs) < TURNS and theirs[-1].seconds < SHORT_S:
        ours += _timed(case, instance, "goat", options)[1].runs
        theirs.append(solve_as_printed(instance, options.rival_limit_s))
    proven = all(rival.proven for rival in theirs)
    seconds = [rival.seconds for rival in theirs]
    over = None if theirs[0].value is None else theirs[0].value / least
    extra = {"proven": proven, "over_goat": over, "goat_seconds": ours}
    result = Result(f"{case.name}: PuLP and CBC", "s", seconds, extra)
    progress(f"{result.name}: {result.median:.2f} s, {'proven' if proven else 'ended'}")
    what = "" if proven else "at least, as it was ended: "
    ratio = statistics.median(seconds) / statistics.median(ours)
    return result, (Ratio(f"{case.name}: {what}PuLP and CBC over goat, in time", ratio),)


def _timed(case: Case, instance: Instance, planner: str, options: Options) -> tuple[Assignment, Result]:
    began_s = time.monotonic()
    found = validate(goat(instance, PlanOptions(time_limit_s=options.time_limit_s)))
    solution = found.solution
    extra = {"status": solution.status, "gap": solution.gap, "link_bytes": solution.value}
    return found, Result(f"{case.name}: {planner}", "s", [time.monotonic() - began_s], extra)


def _krgs(case: Case, instance: Instance, least: float, options: Options) -> Result:
    """The corrected rounding: bytes over the least, for each seed."""
    corrected = Corrected.of(instance, options.time_limit_s)
    runs = [validate(corrected.round(seed)).solution.value / least for seed in range(options.seeds)]
    return Result(f"{case.name}: krgs", "× goat's link bytes", runs, {"mean": statistics.fmean(runs)})


def _printed(case: Case, instance: Instance, least: float, options: Options) -> Result:
    """The rounding as printed: bytes over the least, and the fullest memory."""
    printed = Printed.of(instance, options.time_limit_s)
    found = [printed.round(seed) for seed in range(options.seeds)]
    runs = [one.solution.value / least for one in found]
    shares = [float(np.max(one.memory_bytes[1:] / instance.memory_bytes[1:])) for one in found]
    broken = sum(bool(excess_memory(one).any()) for one in found)
    extra = {"mean": statistics.fmean(runs), "max_memory_share": max(shares), "over_memory": broken}
    return Result(f"{case.name}: krgs_paper", "× goat's link bytes", runs, extra)


def _shown(result: Result) -> str:
    return f"{result.median:.2f} s, {result.extra['status']}, gap {result.extra['gap']:.1e}"


def _over(result: Result) -> str:
    return f"{100 * (result.extra['mean'] - 1):+.2f} % on average over {len(result.runs)} seeds"
