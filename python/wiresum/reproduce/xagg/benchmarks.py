"""The product's benchmarks with this paper's parameters, at 1:100 where the paper has a network."""

from __future__ import annotations

from collections.abc import Callable

from wiresum.bench.aggregator import measure as aggregator
from wiresum.bench.aggregator.command import Options as Live
from wiresum.bench.compare import measure as compare
from wiresum.bench.compare.command import MODELS
from wiresum.bench.compare.command import Options as Compared
from wiresum.bench.deploy import measure as deploy
from wiresum.bench.heterogeneity import measure as heterogeneity
from wiresum.bench.heterogeneity.command import Options as Stragglers
from wiresum.bench.rates import measure as rates
from wiresum.bench.rates.command import Options as Rates
from wiresum.bench.result import Report
from wiresum.reproduce.row import Benchmark
from wiresum.reproduce.xagg.training import RIVALS

Progress = Callable[[str], None]

QUICK_MODELS = {"ResNet50": MODELS["ResNet50"]}
COMPARED = ("xagg", *RIVALS.values())


def _heterogeneity(quick: bool, progress: Progress) -> Report:
    full = Stragglers(rates=True)
    short = Stragglers(size_bytes=full.size_bytes // 20, late_s=full.late_s / 20, repeats=1, rates=True)
    return heterogeneity.measure(short if quick else full, progress)


def _aggregator(quick: bool, progress: Progress) -> Report:
    full = Live(seconds=0.5, runs=3)
    short = Live(engines=("xdp", "tcp"), values=(64, 256, 736), rates=(25e3, 100e3), seconds=0.2, runs=1)
    return aggregator.measure(short if quick else full, progress)


def _compare(quick: bool, progress: Progress) -> Report:
    full = Compared(methods=COMPARED)
    short = Compared(methods=COMPARED, models=QUICK_MODELS, repeats=1)
    return compare.measure(short if quick else full, progress)


def _rates(quick: bool, progress: Progress) -> Report:
    full = Rates()
    return rates.measure(Rates(rounds=5) if quick else full, progress)


def _deploy(quick: bool, progress: Progress) -> Report:
    return deploy.measure(1 if quick else 5, progress)


SCALED = "links shaped to the paper's rates at 1:100"
UNSHAPED = "a veth pair without a limit between two hosts with a core each"
BENCHMARKS = {
    "heterogeneity": Benchmark("wiresum bench heterogeneity", 70, 25, _heterogeneity, SCALED),
    "aggregator": Benchmark("wiresum bench aggregator --engines xdp,af_xdp,udp,tcp", 300, 30, _aggregator, UNSHAPED),
    "compare": Benchmark("wiresum bench compare", 300, 60, _compare, SCALED),
    "rates": Benchmark("wiresum bench rates", 45, 35, _rates, SCALED),
    "deploy": Benchmark("wiresum bench deploy", 20, 5, _deploy, "a server with two ports"),
}
