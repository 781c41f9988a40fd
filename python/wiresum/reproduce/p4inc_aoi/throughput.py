"""§VII-B, Fig. 5: training throughput with sums over that without, two workers and a server, six models."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from wiresum.bench import bars
from wiresum.bench.result import Report, Result
from wiresum.plan.models import MODELS, count
from wiresum.reproduce.p4inc_aoi import printed
from wiresum.reproduce.p4inc_aoi.schemes import Progress
from wiresum.reproduce.row import Benchmark, Figure, Reports, Row
from wiresum.reproduce.words import listed, times

LINK_BPS = 40e9
WORKERS, BATCH = 2, 32
FORWARD_GFLOP = {
    "resnet50": 8.2, "resnet101": 15.7, "resnet152": 23.1, "vgg11": 15.2, "vgg16": 31.0, "vgg19": 39.3,
}  # fmt: skip
"""Work for one image of 224 × 224; a multiplication and an addition count as two."""
TRAINING = 3.0
"""Work of an iteration over that of its forward pass."""
GPU_FLOPS = 11.3e12
"""Rate of a 1080Ti in 32 bits, as its vendor states it."""
FAMILIES = ("resnet", "vgg")
SHARES = [share / 100 for share in range(20, 201, 5)]
"""Shares of that rate that are tried for each family; above 1 where a library needs fewer multiplications."""
HOSTS_BPS = [rate * 0.25e9 for rate in range(8, 161)]
"""Rates of the server's host that are tried: 2 to 40 Gbit/s."""


@dataclass(frozen=True)
class Constants:
    """What the paper does not state.

    Attributes:
        host_bps: what the server's host takes in.
        shares: of the GPU's rate that training reaches, by family of models.
    """

    host_bps: float
    shares: Mapping[str, float]

    def compute_s(self, model: str) -> float:
        """Seconds of computing in an iteration."""
        return compute_s(model, self.shares[family(model)])

    def speedup(self, model: str, host_bps: float | None = None) -> float:
        """As `speedup`, with this host or another one."""
        return speedup(model, self.shares[family(model)], host_bps or self.host_bps)


def model_bytes(model: str) -> int:
    """Bytes of a model's gradient in 32 bits."""
    return 4 * count(MODELS[model]())


def family(model: str) -> str:
    """ResNets or VGGs."""
    return next(name for name in FAMILIES if model.startswith(name))


def compute_s(model: str, share: float) -> float:
    """Seconds of computing in an iteration.

    Args:
        model: its name.
        share: of the GPU's rate that training reaches.
    """
    return TRAINING * FORWARD_GFLOP[model] * 1e9 * BATCH / (GPU_FLOPS * share)


def speedup(model: str, share: float, host_bps: float) -> float:
    """Time of an iteration without sums over that with them; pushes and pulls overlap, computing does not.

    Args:
        model: its name.
        share: of the GPU's rate that training reaches.
        host_bps: what the server's host takes in; a worker's own link bounds it where a switch sums.
    """
    bits = 8 * model_bytes(model)
    alone = compute_s(model, share)
    return (alone + WORKERS * bits / min(host_bps, LINK_BPS)) / (alone + bits / LINK_BPS)


@cache
def fit() -> Constants:
    """The host's rate and the families' shares that come closest to the six figures."""

    def error(name: str, share: float, host_bps: float) -> float:
        told = {model: ratio for model, ratio in printed.SPEEDUPS.items() if family(model) == name}
        return sum((speedup(model, share, host_bps) / ratio - 1) ** 2 for model, ratio in told.items())

    def best(host_bps: float) -> tuple[float, Constants]:
        found = {name: min((error(name, share, host_bps), share) for share in SHARES) for name in FAMILIES}
        shares = {name: share for name, (_, share) in found.items()}
        return sum(wrong for wrong, _ in found.values()), Constants(host_bps, shares)

    return min((best(host_bps) for host_bps in HOSTS_BPS), key=lambda pair: pair[0])[1]


def _limits() -> str:
    return (
        f"links alone allow {WORKERS} × with overlapping pushes and pulls, {2 * WORKERS} × without, before any "
        "computing: a ratio of 3.7 needs a server whose host is slower than its link"
    )


def _ours() -> str:
    constants = fit()
    alone = listed({model: times(constants.speedup(model, LINK_BPS)) for model in printed.SPEEDUPS})
    fitted = listed({model: times(constants.speedup(model)) for model in printed.SPEEDUPS})
    shares = listed({name: f"{100 * share:.0f} %" for name, share in constants.shares.items()})
    return (
        f"by links alone: {alone}; with a host of {constants.host_bps / 1e9:.2f} Gbit/s at the server and GPUs at "
        f"{shares} of their rate, three constants fitted to these six figures: {fitted}"
    )


def _measure(quick: bool, progress: Progress) -> Report:
    del quick
    progress("fit")
    constants = fit()
    results = [
        Result(model, "×", [constants.speedup(model)], {
            "printed": told, "links": constants.speedup(model, LINK_BPS),
        })
        for model, told in printed.SPEEDUPS.items()
    ]  # fmt: skip
    return Report("throughput", {"shares": constants.shares, "host_bps": constants.host_bps}, results)


def draw(report: Report, path: Path) -> None:
    """Bars of each model: printed, by links alone, with the fitted host.

    Raises:
        SupportError: matplotlib is not installed.
    """
    groups = [one.name for one in report.results]
    shown = {
        "paper": [one.extra["printed"] for one in report.results],
        "links alone": [one.extra["links"] for one in report.results],
        "fitted host": [one.median for one in report.results],
    }
    bars.draw(path, groups, shown, {}, "throughput with INC over without")


def _live(reports: Reports) -> str:
    reports.report("throughput")
    report = reports.report("scaled-throughput")
    found = listed({one.name: times(one.median) for one in report.results})
    scale = report.parameters["scale"]
    return f"live at 1:{scale} with the fitted host, computing slept: {found}; Fig. 5 drawn again"


def _measure_live(quick: bool, progress: Progress) -> Report:
    from wiresum.reproduce.p4inc_aoi.scaled import measure_throughput

    return measure_throughput(quick, progress)


BENCHMARKS = {
    "scaled-throughput": Benchmark(
        "wiresum reproduce p4inc-aoi --rows A1",
        150,
        50,
        _measure_live,
        "two racks at 50 Mbit/s in namespaces, the server's link at the rate of its host",
    ),
    "throughput": Benchmark(
        "wiresum reproduce p4inc-aoi --rows A1", 1, 1, _measure, "a closed form, three constants fitted"
    ),
}
FIGURES = (Figure("Fig. 5", "fig-5-throughput.png", "throughput", draw),)
ROWS = (
    Row(
        "A1", "throughput with INC over without, two workers and a server", "AH", "§VII-B, Fig. 5",
        listed({model: times(told) for model, told in printed.SPEEDUPS.items()}), recomputed=_limits, computed=_ours,
        measured=_live, needs=("throughput", "scaled-throughput"),
    ),
)  # fmt: skip
