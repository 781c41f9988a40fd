"""`wiresum bench latency`: microseconds of small collectives through every backend in turn, and where each was done."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from wiresum.bench.latency.command import Options
from wiresum.bench.latency.worker import PRODUCT, Task
from wiresum.bench.result import Ratio, Report, Result
from wiresum.plan.choices import FLOAT32_BYTES
from wiresum.plan.job import Job
from wiresum.plan.options import PlanOptions
from wiresum.planners import plan
from wiresum.testbed import Testbed, run_or_fail
from wiresum.topology.generators.star import star
from wiresum.torch.reason import Reason

AIMS = {4: 0.75, 8: 0.6}
"""The product's time over Gloo's, by number of ranks."""
BARRIER = "barrier"
"""It has no size."""
Runs = list[dict[str, Any]]


def measure(options: Options, progress: Callable[[str], None] = lambda line: None) -> Report:
    """Measures every number of workers on links of its own.

    Args:
        options: what to measure.
        progress: takes a line about what is going on.

    Raises:
        TestbedError: a worker failed, or has a wrong sum; the message has the end of its output.
    """
    results: list[Result] = []
    notes: list[str] = []
    for workers in options.workers:
        sizes = ", ".join(f"{size} B" for size in options.sizes)
        progress(f"{workers} workers: {', '.join(options.collectives)} of {sizes}")
        view = run(options, workers)
        results += to_results(workers, view["runs"])
        notes += [f"{workers} ranks: {line}" for line in [*view["left_out"], *view["report"].splitlines()]]
    parameters = {
        "calls": options.calls,
        "min_elements": options.min_elements,
        "engine": options.engine,
        "aims_over_gloo": {str(ranks): aim for ranks, aim in AIMS.items()},
        "topology": "star in network namespaces, links without a rate",
    }
    return Report("latency", parameters, results, list(ratios(results)), notes=[*map(place, ours(results)), *notes])


def run(options: Options, workers: int) -> dict[str, Any]:
    """What rank 0 of so many has seen."""
    topology = star(workers, None)
    with Testbed(topology, plan(topology, Job(), PlanOptions(engine=options.engine)), loopback=False) as bed:
        output = Path(bed.folder) / "latency.json"
        task = Task(
            backends=[PRODUCT, *options.against],
            cases=list(cases(options, workers)),
            min_elements=options.min_elements,
            calls=options.calls,
            repeats=options.repeats,
            warmups=options.warmups,
            output=str(output),
        )
        run_or_fail(bed, [sys.executable, "-m", "wiresum.bench.latency.worker", task.to_json()], "the benchmark")
        return {**json.loads(output.read_text()), "left_out": bed.left_out}


def cases(options: Options, workers: int) -> Iterator[tuple[str, int]]:
    """Each collective with each number of elements, which ranks can share evenly where they have to."""
    for collective in options.collectives:
        if collective == BARRIER:
            yield collective, 0
            continue
        sizes = [size // FLOAT32_BYTES for size in options.sizes]
        if collective in ("reduce_scatter", "scatter"):
            sizes = [max(workers, elements // workers * workers) for elements in sizes]
        yield from ((collective, elements) for elements in dict.fromkeys(sizes))


def to_results(workers: int, runs: Runs) -> list[Result]:
    """One for each collective, size and backend, in the order in which they were measured."""

    def case(run: dict[str, Any]) -> tuple[str, int, str]:
        return run["collective"], run["elements"], run["backend"]

    return [_to_result(workers, *one, [r for r in runs if case(r) == one]) for one in dict.fromkeys(map(case, runs))]


def _to_result(workers: int, collective: str, elements: int, backend: str, runs: Runs) -> Result:
    reasons: Counter[str] = Counter()
    for each in runs:
        reasons.update(each["reasons"])
    extra = {
        "collective": collective,
        "bytes": elements * FLOAT32_BYTES,
        "workers": workers,
        "backend": backend,
        "reasons": dict(reasons),
    }
    return Result(f"{_case(extra)}: {backend}", "µs", [each["microseconds"] for each in runs], extra)


def _case(extra: dict[str, Any]) -> str:
    """What was measured, for people."""
    what = f"{extra['collective']} of {extra['bytes']} B" if extra["bytes"] else extra["collective"]
    return f"{extra['workers']} ranks, {what}"


def ours(results: list[Result]) -> list[Result]:
    """Those of the product."""
    return [result for result in results if result.extra["backend"] == PRODUCT]


def place(result: Result) -> str:
    """Where the product's collectives were done, for people."""
    reasons = result.extra["reasons"].items()
    said = "; ".join(f"{count} × {reason}: {Reason(reason).explanation}" for reason, count in reasons)
    return f"{_case(result.extra)}: {said}"


def ratios(results: list[Result]) -> Iterator[Ratio]:
    """The product's time over each rival's."""
    for mine in ours(results):
        for rival in results:
            if rival is not mine and _case(rival.extra) == _case(mine.extra):
                name = f"{_case(mine.extra)}: {PRODUCT} / {rival.extra['backend']}"
                yield Ratio(name, mine.median / rival.median)
