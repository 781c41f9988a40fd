"""§V-B, §V-E and §V-G, live: rounds by native workers on shaped links, in the paper's flow and in the product's."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from wiresum.bench import bars
from wiresum.bench.result import Report, Result
from wiresum.picture import picture
from wiresum.reproduce.row import Benchmark, Figure, Reports
from wiresum.reproduce.words import listed, percent, times
from wiresum.reproduce.zebra import printed, simulated

RATE_BPS = 20e6
"""Two cores carry what 16 workers then send to a server; the paper's links have 5,000 times as much."""
MODELS, WORKERS = tuple(printed.HOT_ROWS), printed.WORKERS[:-1]
ROUNDS, LOSSY_ROUNDS, QUICK_ROUNDS = 3, 20, 3
QUICK_WORKERS, DOUBLED = 8, 2
LOSSY_WORKERS, LOSSY_RATE_BPS = 8, 100e6
LOSSES = (0.0, 0.001, 0.01)
LOSSY_TRACE = "criteo:scale=0.02,batch=256"
PUSH_PULL, ZEBRA, TIERS = "push_pull", "zebra", "wiresum"
"""As `wiresum bench sparse` names them."""
NAMES = {ZEBRA: "Zebra's flow", TIERS: "tiers"}
MARKERS = dict(zip(MODELS, "os^v", strict=True))


def _measure(quick: bool, progress: Callable[[str], None]) -> Report:
    counts = (QUICK_WORKERS,) if quick else WORKERS
    cases = [(model, workers, 1) for model in MODELS for workers in counts]
    doubled = [model for model in MODELS if model in printed.DOUBLED_GAIN]
    cases += [(model, counts[0] if quick else printed.DOUBLED_WORKERS, DOUBLED) for model in doubled]
    results = []
    for model, workers, factor in cases:
        hot = factor * printed.HOT_ROWS[model]
        progress(f"{printed.NAMES[model]}, {workers} workers, {hot:,} hot rows")
        results += _rounds(model, workers, factor, hot)
    return Report("live", {"workers": list(counts), "rate_bps": RATE_BPS, "batch": simulated.BATCH}, results)


def _rounds(model: str, workers: int, factor: int, hot: int) -> list[Result]:
    """By method, the seconds of its rounds, and what came to the server."""
    from wiresum.bench.sparse.command import Options
    from wiresum.bench.sparse.measure import measure

    trace = f"{model}:batch={simulated.BATCH},dim={simulated.DIMENSION}"
    against = (PUSH_PULL, ZEBRA) if factor == 1 else (ZEBRA,)
    options = Options(trace, workers, RATE_BPS, against=against, rounds=ROUNDS, hot_rows=hot, replicas=hot)
    report = measure(options)
    case = {"model": model, "workers": workers, "factor": factor}
    return [_result(one, case) for one in report.results]


def _measure_loss(quick: bool, progress: Callable[[str], None]) -> Report:
    from wiresum.bench.sparse.command import Options
    from wiresum.bench.sparse.measure import measure

    results, rounds = [], QUICK_ROUNDS if quick else LOSSY_ROUNDS
    for loss in LOSSES:
        progress(f"{percent(loss, 2)} lost on each link")
        options = Options(LOSSY_TRACE, LOSSY_WORKERS, LOSSY_RATE_BPS, against=(ZEBRA,), rounds=rounds, loss=loss)
        results += [_result(one, {"loss": loss}) for one in measure(options).results]
    parameters = {"workers": LOSSY_WORKERS, "rate_bps": LOSSY_RATE_BPS, "trace": LOSSY_TRACE}
    return Report("live loss", parameters, results)


def _result(one: Result, case: Mapping[str, object]) -> Result:
    extra = {**case, "method": one.name, "server_bytes": one.extra["server_bytes"], "predicted": one.extra["predicted"]}
    return Result(", ".join([one.name, *map(str, case.values())]), "s", one.extra["seconds"], extra)


def _of(report: Report, method: str, workers: int, factor: int = 1) -> dict[str, Result]:
    """By model."""
    wanted = (method, workers, factor)
    keys = ("method", "workers", "factor")
    return {one.extra["model"]: one for one in report.results if tuple(one.extra[key] for key in keys) == wanted}


def _workers(report: Report) -> list[int]:
    return sorted({one.extra["workers"] for one in report.results if one.extra["factor"] == 1})


def server_gains(report: Report, workers: int) -> dict[str, float]:
    """By model, how many times fewer bytes come to the server with sums; empty where links are not counted."""
    plain, summed = _of(report, PUSH_PULL, workers), _of(report, ZEBRA, workers)
    counted = {model: (one.extra["server_bytes"], summed[model].extra["server_bytes"]) for model, one in plain.items()}
    return {model: without / with_sums for model, (without, with_sums) in counted.items() if with_sums}


def round_gains(report: Report, method: str, workers: int) -> dict[str, float]:
    """By model, how many times longer a round takes without sums."""
    plain, found = _of(report, PUSH_PULL, workers), _of(report, method, workers)
    return {model: plain[model].median / one.median for model, one in found.items()}


def predicted_gains(report: Report, method: str, workers: int) -> dict[str, float]:
    """By model, the same as the planner predicts it."""
    plain, found = _of(report, PUSH_PULL, workers), _of(report, method, workers)
    return {model: one.extra["predicted"] / plain[model].extra["predicted"] for model, one in found.items()}


def doubled_gains(report: Report) -> dict[str, float]:
    """By model, what twice as many hot rows make of a round."""
    twice = [one for one in report.results if (one.extra["method"], one.extra["factor"]) == (ZEBRA, DOUBLED)]
    once = [_of(report, ZEBRA, one.extra["workers"])[one.extra["model"]] for one in twice]
    return {few.extra["model"]: few.median / many.median for few, many in zip(once, twice, strict=True)}


def _by_model(ratios: Mapping[str, float]) -> str:
    return listed({printed.NAMES[model]: times(ratio) for model, ratio in ratios.items()})


def into_server(reports: Reports) -> str:
    """How many times fewer bytes come to the server with sums."""
    report = reports.report("live")
    gains = {workers: server_gains(report, workers) for workers in _workers(report)}
    if not all(gains.values()):
        return "live: not measured, as this machine has no network namespaces"
    said = [f"{workers} workers {_by_model(found)}" for workers, found in gains.items()]
    return f"live, push/pull over Zebra's flow, likewise: {'; '.join(said)}"


def doubled(reports: Reports) -> str:
    """What twice as many hot rows make of rounds."""
    gains = doubled_gains(reports.report("live"))
    each = {printed.NAMES[model]: f"{100 * (gain - 1):+.1f} %" for model, gain in gains.items()}
    return f"live, rounds a second with pulls, {printed.DOUBLED_WORKERS} workers: {listed(each)}"


def whole_rounds(reports: Reports) -> str:
    """Whole rounds over push/pull's."""
    report = reports.report("live")
    workers = _workers(report)[-1]
    each = [f"{name} {_by_model(round_gains(report, method, workers))}" for method, name in NAMES.items()]
    return f"live over push/pull, {workers} workers at {RATE_BPS / 1e6:g} Mbit/s: {'; '.join(each)}"


def longer(report: Report, method: str) -> dict[float, float]:
    """By loss, how much longer all rounds take than without."""
    total = {one.extra["loss"]: sum(one.runs) for one in report.results if one.extra["method"] == method}
    return {loss: seconds / total[0.0] - 1 for loss, seconds in total.items() if loss}


def lost(reports: Reports) -> str:
    """How much longer rounds take by loss."""
    report, said = reports.report("live loss"), []
    for method, name in NAMES.items():
        each = {percent(loss, 2): f"{100 * more:+.1f} %" for loss, more in longer(report, method).items()}
        said.append(f"{name}: {listed(each)}")
    return f"live, loss on each shaped link: {'; '.join(said)}"


def draw(report: Report, path: Path) -> None:
    """Draws by how much sums spare the server, over the number of workers.

    Raises:
        SupportError: matplotlib is not installed.
    """
    with picture(path, 1, 1, figsize=(5.4, 3.6)) as (_, axes):
        counts = _workers(report)
        for model in MODELS:
            gains = [server_gains(report, workers).get(model, float("nan")) for workers in counts]
            axes.plot(counts, gains, marker=MARKERS[model], markersize=4, label=printed.NAMES[model])
        axes.axhspan(*printed.GAIN, color="grey", alpha=0.12, label="printed, 32 workers")
        axes.set(xlabel="workers", xticks=counts, ylabel="push/pull's bytes into the server,\nover Zebra's flow's")
        axes.set(ylim=(0.8, 4.2))
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(frameon=False, fontsize=8)


def draw_rounds(report: Report, path: Path) -> None:
    """Draws how much quicker whole rounds are than push/pull's, predicted and live.

    Raises:
        SupportError: matplotlib is not installed.
    """
    workers = _workers(report)[-1]
    gains = {}
    for method, name in NAMES.items():
        gains[f"{name}, predicted"] = predicted_gains(report, method, workers)
        gains[f"{name}, live"] = round_gains(report, method, workers)
    heights = {name: [found[model] for model in MODELS] for name, found in gains.items()}
    bars.draw(
        path,
        [printed.NAMES[model] for model in MODELS],
        heights,
        {},
        f"quicker rounds than push/pull's (×), {workers} workers",
    )


def draw_loss(report: Report, path: Path) -> None:
    """Draws how much longer rounds take, by loss.

    Raises:
        SupportError: matplotlib is not installed.
    """
    found = {name: longer(report, method) for method, name in NAMES.items()}
    losses = [loss for loss in LOSSES if loss]
    heights = {name: [100 * more[loss] for loss in losses] for name, more in found.items()}
    bars.draw(path, [percent(loss, 2) for loss in losses], heights, {}, "longer rounds (%), by lost packets")


NETWORK = (
    f"popularity of Fig. 4, {simulated.BATCH} samples of 100 lookups a worker, rows of {simulated.DIMENSION} float32, "
    f"network namespaces with links of {RATE_BPS / 1e6:g} Mbit/s"
)
LOSSY_NETWORK = (
    f"Criteo-like clicks, {LOSSY_WORKERS} workers and a server in network namespaces, links of "
    f"{LOSSY_RATE_BPS / 1e6:g} Mbit/s"
)
BENCHMARKS = {
    "live": Benchmark("wiresum reproduce zebra --rows Z3,Z4,Z5,Z12", 480, 120, _measure, NETWORK),
    "live loss": Benchmark("wiresum reproduce zebra --rows Z9", 180, 60, _measure_loss, LOSSY_NETWORK),
}
FIGURES = (
    Figure("Fig. 6, live", "fig-06-live.png", "live", draw),
    Figure("Fig. 12", "fig-12-rounds.png", "live", draw_rounds),
    Figure("Fig. 11, live", "fig-11-live.png", "live loss", draw_loss),
)
