"""`wiresum bench compare`: communication times of several methods on the test bed of XAgg (§VI-C, Fig. 12 and 13)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.table import Table

from wiresum.bench import bars
from wiresum.bench.compare.command import FLOAT32_BYTES, Options
from wiresum.bench.compare.methods import METHODS, Case, Setting
from wiresum.bench.result import Ratio, Report, Result
from wiresum.commandline.tables import figures
from wiresum.errors import PlanError
from wiresum.testbed import Testbed

REFERENCE = "xagg"
"""What the others' times are divided by, if it is measured."""


@dataclass
class Measured:
    """A method, and by model the seconds of every turn and the largest deviation from Gloo's sums."""

    case: Case
    seconds: dict[str, list[float]]
    deviations: dict[str, float]


def measure(options: Options, progress: Callable[[str], None] = lambda line: None) -> Report:
    """Measures the methods turn by turn; each turn has links, aggregators and processes of its own.

    Args:
        options: what to measure.
        progress: takes a line after each turn.

    Raises:
        PlanError: no such method or worker.
        TestbedError: a worker failed; the message has the end of its output.
    """
    largest = max(options.elements.values()) * FLOAT32_BYTES
    methods = options.methods or tuple(METHODS)
    setting = Setting(options.scale, options.engine, largest)
    measured = {name: Measured(_case(name, setting), {m: [] for m in options.models}, {}) for name in methods}
    _check_starts(options, measured)
    for repeat in range(options.repeats):
        for name, one in measured.items():
            _turn(one, options)
            times = ", ".join(f"{one.seconds[model][-1]:.3f}" for model in options.models)
            progress(f"turn {repeat + 1} of {options.repeats}, {name}: {times} s")
    return to_report(options, measured)


def _case(name: str, setting: Setting) -> Case:
    if name not in METHODS:
        raise PlanError(f"there is no method {name}; choose from {', '.join(METHODS)}")
    return METHODS[name].prepare(setting)


def _check_starts(options: Options, measured: Mapping[str, Measured]) -> None:
    known = {worker.name for one in measured.values() for worker in one.case.topology.workers}
    stranger = next((name for name in options.starts if name not in known), None)
    if stranger is not None:
        raise PlanError(f"there is no worker {stranger} to start late; the test bed has {', '.join(sorted(known))}")


def _turn(one: Measured, options: Options) -> None:
    """Every model once."""
    with Testbed(one.case.topology, one.case.plan, loopback=False) as bed:
        starts_s = [options.starts.get(worker, 0.0) for worker in bed.workers]
        samples = one.case.turn(bed, list(options.elements.values()), starts_s)
    for model, (seconds, deviation) in zip(options.models, samples, strict=True):
        one.seconds[model].append(seconds)
        one.deviations[model] = max(deviation, one.deviations.get(model, 0.0))


def to_report(options: Options, measured: Mapping[str, Measured]) -> Report:
    """One result for each method and model, with its bound; the others' times over XAgg's."""
    results = [
        Result(
            f"{name}, {model}",
            "s",
            one.seconds[model],
            {
                "method": name,
                "model": model,
                "bytes": elements * FLOAT32_BYTES,
                "bound_s": one.case.bound(elements * FLOAT32_BYTES, options.starts),
                "largest_deviation_from_gloo": one.deviations[model],
            },
        )
        for name, one in measured.items()
        for model, elements in options.elements.items()
    ]
    parameters = {
        "scale": options.scale,
        "model_scale": options.model_scale,
        "engine": options.engine,
        "starts": dict(options.starts),
        "topology": "xagg in network namespaces, shaped by tbf",
    }
    notes = [f"{name}: {METHODS[name].what}" for name in measured]
    return Report("compare", parameters, results, ratios(results), notes=notes)


def ratios(results: Sequence[Result]) -> list[Ratio]:
    """Every method's time over that of the reference, model by model."""
    reference = {result.extra["model"]: result.median for result in results if result.extra["method"] == REFERENCE}
    return [
        Ratio(f"{result.name} / {REFERENCE}", result.median / reference[result.extra["model"]])
        for result in results
        if result.extra["method"] != REFERENCE and result.extra["model"] in reference
    ]


def table(report: Report) -> Table:
    """Methods by models: median seconds, and times the bound."""
    models = list(dict.fromkeys(str(result.extra["model"]) for result in report.results))
    title = "communication time in s (times its bound)"
    shown = figures(("", *models), title=title, caption="\n".join(report.notes))
    for method in dict.fromkeys(str(result.extra["method"]) for result in report.results):
        row = {r.extra["model"]: r for r in report.results if r.extra["method"] == method}
        cells = [f"{row[m].median:.3f} ({row[m].median / row[m].extra['bound_s']:.2f} ×)" for m in models]
        shown.add_row(method, *cells)
    return shown


def draw(report: Report, path: Path) -> None:
    """Bars per model, as Fig. 13; errors as for `bars.draw`."""
    models = list(dict.fromkeys(str(result.extra["model"]) for result in report.results))
    methods = list(dict.fromkeys(str(result.extra["method"]) for result in report.results))

    def by_method(value: Callable[[Result], float]) -> dict[str, list[float]]:
        return {method: [value(r) for r in report.results if r.extra["method"] == method] for method in methods}

    bars.draw(
        path,
        groups=models,
        bars=by_method(lambda result: result.median),
        bounds=by_method(lambda result: float(result.extra["bound_s"])),
        ylabel="communication time (s); line: bound",
    )
