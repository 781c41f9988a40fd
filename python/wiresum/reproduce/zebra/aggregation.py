"""§V-B and §V-G: what sums of hot parameters gain (Figs. 6 to 8 and 12), by the formula and counted."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from wiresum.bench.result import Report, Result
from wiresum.picture import picture
from wiresum.planners import place_rows
from wiresum.planners.tiers.instance import SparseInstance, servers_of
from wiresum.predict.sparse import SparseNetwork
from wiresum.reproduce.row import Benchmark, Figure, Reports, Row
from wiresum.reproduce.words import listed, percent, spread, times
from wiresum.reproduce.zebra import bars, live, printed, simulated
from wiresum.sparse.counts import Counts, formula
from wiresum.sparse.spec import parse
from wiresum.sparse.synthetic import LAWS
from wiresum.sparse.trace import Trace
from wiresum.topology.generators.star import star

LINK_BPS = 100e9
"""The testbed's; gains are ratios, so only adders could notice, and the switch adds at line rate."""
SIZE_INCHES = (9.0, 3.6)
DOUBLED = 2
BATCHES = (256, 8)
"""Samples of a worker: the one that is drawn, and one so small that workers hardly merge anything."""
MARKERS = "os^v"


def looked_up(model: str, rows: int) -> float:
    """Share of all lookups that the most popular rows get, by the fitted power law."""
    return float(LAWS[model]().share(np.array([rows]))[0])


def _measure(quick: bool, progress: Callable[[str], None]) -> Report:
    results = []
    workers = (printed.DOUBLED_WORKERS, printed.WORKERS[-1]) if quick else printed.WORKERS
    for model, hot in printed.HOT_ROWS.items():
        for batch in BATCHES:
            trace = parse(f"{model}:batch={batch}")
            for count in workers:
                progress(f"{printed.NAMES[model]}, {batch} samples, {count} workers")
                results.append(_counted(trace, model, count, hot))
    return Report("aggregation", {"rounds": 1}, results)


def _counted(trace: Trace, model: str, workers: int, hot: int) -> Result:
    counts = Counts.of(trace, workers, 1)
    few, many = counts.hot(hot), counts.hot(DOUBLED * hot)
    topology = star(workers, LINK_BPS, aggregation_rate_bps=workers * LINK_BPS, servers=1)
    asked = SparseInstance(SparseNetwork(topology, servers_of(topology)), trace.tables.tables, counts)
    zebra, tiers = (place_rows(asked, planner).gains.push_pull for planner in ("zebra", "tiers"))
    extra = {
        "model": model, "workers": workers, "batch": trace.batch, "share": few.share, "formula": few.formula,
        "doubled": many.gain / few.gain, "dense": workers * counts.pushed / counts.rows, "zebra": zebra, "tiers": tiers,
    }  # fmt: skip
    return Result(f"{model}, {trace.batch} samples, {workers} workers", "×", [few.gain], extra)


def _of(report: Report, workers: int, batch: int | None = None) -> dict[str, Result]:
    return {
        printed.NAMES[one.extra["model"]]: one
        for one in report.results
        if (one.extra["workers"], one.extra["batch"]) == (workers, batch or BATCHES[0])
    }


def _formula() -> str:
    values = {
        printed.NAMES[model]: formula(looked_up(model, hot), printed.WORKERS[-1])
        for model, hot in printed.HOT_ROWS.items()
    }
    each = listed({name: times(value) for name, value in values.items()})
    return f"1 / ((1 − h) + h/32) with the shares of Fig. 4: {each}; that is the printed range"


def _gains(reports: Reports) -> str:
    report, said = reports.report("aggregation"), []
    for batch in BATCHES:
        found = _of(report, printed.WORKERS[-1], batch)
        counted = listed({name: f"{times(one.median)} (h {one.extra['share']:.2f})" for name, one in found.items()})
        formulas = spread([one.extra["formula"] for one in found.values()])
        said.append(f"{batch} samples of 100 lookups a worker: {counted}, formula with these h {formulas}")
    dense = listed({
        name: f"{one.extra['dense']:.3f} ×" for name, one in _of(report, printed.WORKERS[-1]).items()
    })  # fmt: skip
    return (
        f"counted, what a server takes from 32 workers: {'; '.join(said)}. The whole model through a switch, as "
        f"SwitchML: {dense}. {simulated.into_server(reports)}; {live.into_server(reports)}. LSTM: no "
        "popularity is printed"
    )


def doubled_by_formula(model: str) -> float:
    """What twice as many hot rows gain by the formula, with the shares of the fitted power law.

    Example:
        >>> round(doubled_by_formula("oa"), 2)
        0.07
    """
    hot, workers = printed.HOT_ROWS[model], printed.DOUBLED_WORKERS
    return formula(looked_up(model, DOUBLED * hot), workers) / formula(looked_up(model, hot), workers) - 1


def _doubled_formula() -> str:
    return listed({printed.NAMES[model]: f"+{percent(doubled_by_formula(model))}" for model in printed.DOUBLED_GAIN})


def _doubled(reports: Reports) -> str:
    found = _of(reports.report("aggregation"), printed.DOUBLED_WORKERS)
    each = listed({name: f"+{percent(one.extra['doubled'] - 1)}" for name, one in found.items()})
    return f"counted, with twice as many hot rows: {each}; {live.doubled(reports)}"


def _more_rows() -> str:
    more = {
        printed.NAMES[model]: percent(looked_up(model, DOUBLED * hot) - looked_up(model, hot))
        for model, hot in printed.HOT_ROWS.items()
    }
    return f"the second half of the hot rows gets {listed(more)} of the lookups"


def sparse_share(end_to_end: float, aggregation: float) -> float:
    """Share of aggregation in a rival's iteration, by Amdahl's law.

    Example:
        >>> round(sparse_share(2.0, 4.0), 3)
        0.667
    """
    return (1 - 1 / end_to_end) / (1 - 1 / aggregation)


def _amdahl() -> str:
    shares = [sparse_share(*pair) for pair in zip(printed.END_TO_END, printed.GAIN, strict=True)]
    return (
        f"with the ends of Fig. 6 the pushes are {percent(shares[0], 0)} and {percent(shares[1], 0)} of PS-lite's time"
    )


def _whole_rounds(reports: Reports) -> str:
    found = _of(reports.report("aggregation"), printed.WORKERS[-1])
    zebra = times(max(one.extra["zebra"] for one in found.values()))
    tiers = listed({name: times(one.extra["tiers"]) for name, one in found.items()})
    return (
        f"whole rounds with pulls, one server, 32 workers, predicted: Zebra's flow at most {zebra}, as its server "
        f"still answers every worker; planner `tiers` {tiers}. {live.whole_rounds(reports)}. The paper does not say "
        "how its pulls became cheaper"
    )


def draw(report: Report, path: Path) -> None:
    """Draws the gains of sums over the number of workers: by the formula with Fig. 4's shares, and counted.

    Raises:
        SupportError: matplotlib is not installed.
    """
    with picture(path, 1, 2, figsize=SIZE_INCHES, sharey=True) as (_, (left, right)):
        for marker, model in zip(MARKERS, printed.HOT_ROWS, strict=True):
            found = [one for one in report.results if (one.extra["model"], one.extra["batch"]) == (model, BATCHES[0])]
            workers = [one.extra["workers"] for one in found]
            share, name = looked_up(model, printed.HOT_ROWS[model]), printed.NAMES[model]
            left.plot(workers, [formula(share, count) for count in workers], marker=marker, markersize=4, label=name)
            right.plot(workers, [one.median for one in found], marker=marker, markersize=4, label=name)
        left.set(title="formula, shares of Fig. 4", ylabel="gain over PS-lite", ylim=(0.8, 4.2))
        right.set(title="counted, 256 samples a worker")
        for axes in (left, right):
            axes.axhspan(*printed.GAIN, color="grey", alpha=0.12, label="printed, 32 workers")
            axes.set(xlabel="workers", xticks=workers)
            axes.spines[["top", "right"]].set_visible(False)
        left.legend(frameon=False, fontsize=8)


def draw_doubled(report: Report, path: Path) -> None:
    """Draws what twice as many hot rows gain: printed, by the formula, and counted.

    Raises:
        SupportError: matplotlib is not installed.
    """
    models = list(printed.HOT_ROWS)
    counted = {one.extra["model"]: one.extra["doubled"] - 1 for one in _of(report, printed.DOUBLED_WORKERS).values()}
    gains: Mapping[str, Mapping[str, float]] = {
        "printed": printed.DOUBLED_GAIN,
        "formula, shares of Fig. 4": {model: doubled_by_formula(model) for model in models},
        "counted, 256 samples a worker": counted,
    }
    bars.draw(path, models, gains, "gain of twice as many hot rows (%)")


NETWORK = "popularity of Fig. 4, 256 samples of 100 lookups a worker, counted for a star with one server"
BENCHMARKS = {"aggregation": Benchmark("wiresum reproduce zebra --rows Z3", 60, 30, _measure, NETWORK)}
FIGURES = (
    Figure("Fig. 6", "fig-06-aggregation.png", "aggregation", draw),
    Figure("Figs. 7 and 8", "fig-07-hot-rows.png", "aggregation", draw_doubled),
)
ROWS = (
    Row(
        "Z3", "aggregation throughput over PS-lite, 4 to 32 workers, five models", "APL", "§V-B, Fig. 6",
        "1.5 to 4 × with 32 workers, growing with them; SwitchML may be below PS-lite",
        recomputed=_formula, measured=_gains, needs=("aggregation", "simulated", "live"),
    ),
    Row(
        "Z4", "twice the memory: 60,000 hot parameters instead of 30,000, 16 workers", "AL", "§V-B, Fig. 7",
        "Zebra OA +7 %, SE +1.7 %; SwitchML 2 ×, which is 45.6 % of Zebra with 1 MB",
        recomputed=_doubled_formula, measured=_doubled, needs=("aggregation", "live"),
    ),
    Row(
        "Z5", "what the second half of the hot parameters adds", "AL", "§V-B, Fig. 8", "little",
        recomputed=_more_rows, measured=_doubled, needs=("aggregation", "live"),
    ),
    Row(
        "Z12", "time to a given accuracy over PS-lite's, four models", "AL", "§V-G, Fig. 12", "1.4 to 2.6 × faster",
        recomputed=_amdahl, measured=_whole_rounds, needs=("aggregation", "live"),
    ),
)  # fmt: skip
