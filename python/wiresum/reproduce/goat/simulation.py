"""§VII-C by simulation: every method's switches on GOAT's leaf-spine, by asynchrony and by number of workers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from wiresum.bench.asynchrony import measure as asynchrony
from wiresum.bench.asynchrony.command import Options
from wiresum.bench.asynchrony.measure import LINKS, SERVER
from wiresum.bench.asynchrony.plot import DEVIATION as BY_DEVIATION
from wiresum.bench.asynchrony.plot import draw_one
from wiresum.bench.result import Report, Result
from wiresum.reproduce.row import Benchmark, Figure, Reports, Row
from wiresum.reproduce.words import listed

WORKERS = (20, 25, 30, 35)
"""Numbers of workers of the leaf-spine, as in Figs. 13 and 15."""
DEVIATION = 0.2
"""The paper's default."""
MODEL_GB = 0.24
"""16 layers of 15 MB, of the authors' public simulation."""
METHODS = {"GOAT": "goat", "ESA": "esa", "ATP": "atp", "its model of ATP": "atp_static", "Geryon": "ps"}


def _asynchrony(quick: bool, progress: Callable[[str], None]) -> Report:
    full = Options()
    options = replace(full, seeds=1, deviations=(0.0, 0.6)) if quick else full
    return asynchrony.measure(options, progress=lambda done, of: progress(f"{done} of {of} runs"))


def _by_workers(quick: bool, progress: Callable[[str], None]) -> Report:
    """A report for each number of workers, as one."""
    results: list[Result] = []
    for workers in (WORKERS[0], WORKERS[-1]) if quick else WORKERS:
        options = Options(deviations=(DEVIATION,), seeds=1 if quick else 5, workers=workers)
        report = asynchrony.measure(options, progress=partial(_tell, progress, workers))
        results += [replace(one, extra={**one.extra, "workers": workers}) for one in report.results]
    return Report("asynchrony", {"deviation": DEVIATION}, results)


def _tell(progress: Callable[[str], None], workers: int, done: int, of: int) -> None:
    progress(f"{workers} workers: {done} of {of} runs")


def _median(report: Report, method: str, quantity: str, **extra: float) -> float:
    wanted = {"method": method, "quantity": quantity, **extra}
    return next(one.median for one in report.results if wanted.items() <= one.extra.items())


def _gigabytes(reports: Reports, quantity: str) -> str:
    """What 35 workers send, at the paper's size of the gradient."""
    report = reports.report("workers")
    found = {name: _median(report, method, quantity, workers=WORKERS[-1]) for name, method in METHODS.items()}
    said = listed({name: f"{models * MODEL_GB:.2f} GB" for name, models in found.items()})
    return f"simulated, scaled to 240 MB: {said}"


def server(reports: Reports) -> str:
    """Fig. 13."""
    return _gigabytes(reports, SERVER)


def total(reports: Reports) -> str:
    """Fig. 15, with results on their way down."""
    return f"{_gigabytes(reports, LINKS)}, both ways"


def shape(reports: Reports) -> str:
    """Fig. 16."""
    report = reports.report("asynchrony")
    ends = min(one.extra["deviation"] for one in report.results), max(one.extra["deviation"] for one in report.results)
    found = {
        name: " → ".join(f"{_median(report, method, LINKS, deviation=end):.0f}" for end in ends)
        for name, method in METHODS.items()
    }
    return f"models over all links, both ways, σ = {ends[0]:g} → {ends[1]:g}: {listed(found)}"


ROWS = (
    Row(
        "G7b", "bytes on all links by deviation: leaf-spine", "P", "§VII-C, Fig. 16",
        "ATP and ESA rise, GOAT and Geryon do not; without deviation ATP has more than GOAT",
        recomputed=lambda: "the public simulation's axis is the part of workers that bypass ATP's and ESA's switches",
        measured=shape, needs=("asynchrony",),
    ),
)  # fmt: skip
NETWORK = "leaf-spine of 20 switches, 5 of which sum, 35 of 49 workers, in simulation"
BENCHMARKS = {
    "asynchrony": Benchmark("wiresum bench asynchrony", 180, 30, _asynchrony, NETWORK),
    "workers": Benchmark(
        f"wiresum bench asynchrony --deviations {DEVIATION} --workers N", 120, 20, _by_workers, NETWORK
    ),
}
BY_WORKERS = ("workers", "workers")
FIGURES = (
    Figure("Fig. 13", "fig-13-server.png", "workers", partial(draw_one, quantity=SERVER, across=BY_WORKERS)),
    Figure("Fig. 15", "fig-15-links.png", "workers", partial(draw_one, quantity=LINKS, across=BY_WORKERS)),
    Figure("Fig. 16", "fig-16-deviation.png", "asynchrony", partial(draw_one, quantity=LINKS, across=BY_DEVIATION)),
)
