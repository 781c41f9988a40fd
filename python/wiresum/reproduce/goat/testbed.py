"""§VII-B, Exp. 1 to 3: the testbed's printed figures, and its rounds simulated at the hosts' rates they imply."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from wiresum.bench.live import measure as live
from wiresum.bench.live.command import Options as Live
from wiresum.bench.result import Report
from wiresum.reproduce.goat import placement, printed
from wiresum.reproduce.goat.goat_testbed import measure as goat_testbed
from wiresum.reproduce.goat.goat_testbed.measure import (
    COMMUNICATION,
    DEVIATION_S,
    NAMES,
    ROUND,
    SERVER,
    SPEED,
    SPREAD_S,
    median,
)
from wiresum.reproduce.goat.goat_testbed.plot import draw_accuracy, draw_by_model, draw_by_workers
from wiresum.reproduce.row import Benchmark, Figure, Reports, Row
from wiresum.reproduce.words import less, listed, live_plans, times

WORKERS, FEW = 16, 8
RESNET50_MB, TOFINO_2_MB = 98, 64
TARGET = 0.9
"""Accuracy on digits: high on the steep part, as 0.7896 is on CIFAR-100."""
QUICK_TRAINING = 200
LIVE_BYTES, QUICK_LIVE_BYTES = 4_000_000, 1_000_000


def _samples() -> str:
    products = {name: f"{rate * printed.EPOCH_S[name]:.0f}" for name, rate in printed.IMAGES_PER_S.items()}
    fits = printed.IMAGES_PER_S["GOAT"] * printed.EPOCH_S["GOAT"] / printed.EPOCH_S["Geryon"]
    return f"images a “epoch”: {listed(products)}; all alike would make Geryon {fits:.0f} images/s"


def _speedups() -> str:
    ours, others = printed.RESNET50_S["GOAT"], list(printed.RESNET50_SPEEDUPS)
    true = listed({name: times(printed.RESNET50_S[name] / ours) for name in others})
    return f"{true}; the printed 1.34 and 1.39 are 1 + the time saved"


def _densenet() -> str:
    ours, *others = printed.DENSENET121_IMAGES_PER_S.items()
    return "GOAT against " + listed({name: times(ours[1] / rate) for name, rate in others})


def _saved(seconds: dict[str, float]) -> str:
    ours, *others = seconds.values()
    names = list(seconds)[1:]
    return listed({name: less(1 - ours / other) for name, other in zip(names, others, strict=True)})


def _spread() -> str:
    return f"normal computing times with σ = {DEVIATION_S:.2f} s have a mean range of {SPREAD_S} s over 16 workers"


def _simulated(model: str, workers: int, quantity: str, digits: int, unit: str) -> Callable[[Reports], str]:
    """A quantity of every method."""

    def measured(reports: Reports) -> str:
        report = reports.report("testbed")
        found = {name: median(report, model, workers, method, quantity) for method, name in NAMES.items()}
        return f"simulated: {listed({name: f'{value:.{digits}f}' for name, value in found.items()})} {unit}"

    return measured


def _times_to_accuracy(reports: Reports) -> str:
    """Rounds of the real training until the target, times each method's round."""
    report = reports.report("testbed")
    rounds = goat_testbed.learned(report).rounds_to(TARGET)
    if rounds is None:
        return f"the training did not reach {TARGET}"
    seconds = {name: rounds * median(report, "resnet50", WORKERS, method, ROUND) for method, name in NAMES.items()}
    ours = seconds["GOAT"]
    said = listed({name: f"{value:.0f} s ({times(value / ours)})" for name, value in seconds.items()})
    return f"digits to {TARGET} in {rounds} rounds of 16 × 128, each as long as simulated for ResNet-50: {said}"


def _server_bytes(reports: Reports) -> str:
    """By simulation, and whether a live run has the bytes that its plan predicts."""
    simulated = _simulated("resnet18", WORKERS, SERVER, 0, "MB with headers and repetitions")(reports)
    return f"{simulated}; {live_plans(reports.report('live'))}"


def _live(quick: bool, progress: Callable[[str], None]) -> Report:
    size = QUICK_LIVE_BYTES if quick else LIVE_BYTES
    return live.measure(Live(size_bytes=size, repeats=3, cases=("GOAT's testbed",)), progress)


def _measure(quick: bool, progress: Callable[[str], None]) -> Report:
    full = goat_testbed.Options()
    few = replace(full, by_model=("densenet121",), workers=(4, 16), seeds=1, rounds=3, training_rounds=QUICK_TRAINING)
    return goat_testbed.measure(few if quick else full, lambda done, of: progress(f"{done} of {of} runs"))


def _figure(number: int, what: str, draw: Callable[[Report, Path], None]) -> Figure:
    return Figure(f"Fig. {number}", f"fig-{number:02}-{what}.png", "testbed", draw)


BY_WORKERS: Sequence[tuple[int, str, str]] = (
    (6, "images", SPEED), (8, "round", ROUND), (9, "communication", COMMUNICATION), (10, "server", SERVER),
)  # fmt: skip
FIGURES = (
    _figure(5, "models", draw_by_model),
    *(_figure(number, what, partial(draw_by_workers, quantity=quantity)) for number, what, quantity in BY_WORKERS),
    _figure(7, "accuracy", draw_accuracy),
)
NETWORK = (
    "GOAT's triangle at 1:10, hosts at the rates that the paper's times imply, in simulation; accuracy of a real "
    "training on digits, its rounds as long as simulated ones"
)
BENCHMARKS = {
    "testbed": Benchmark("wiresum reproduce goat --rows G1c", 60, 20, _measure, NETWORK),
    "live": Benchmark("wiresum bench live", 15, 10, _live, "GOAT's testbed with 8 workers, 100 Mbit/s"),
}
ROWS = (
    Row(
        "G0c", "switches of 64 MB that ResNet-50's 98 MB need", "A", "§I", "2",
        recomputed=lambda: f"⌈{RESNET50_MB} / {TOFINO_2_MB}⌉ = {math.ceil(RESNET50_MB / TOFINO_2_MB)}; with 20 MB "
        f"each {math.ceil(RESNET50_MB / 20)}, of which the testbed has 3",
    ),
    Row(
        "G1a", "images/s of DenseNet-121 with 8 workers", "HP", "§VII-B, Exp. 1, Fig. 5",
        "GOAT 276, ESA 240, ATP 219, Geryon 180", recomputed=_densenet,
        measured=_simulated("densenet121", FEW, SPEED, 0, "images/s"), needs=("testbed",),
    ),
    Row(
        "G1b", "images/s of ResNet-18 with 16 workers", "HP", "§VII-B, Exp. 1, Fig. 6",
        "GOAT 931, ESA 585, ATP 512, Geryon 465", recomputed=_samples,
        measured=_simulated("resnet18", WORKERS, SPEED, 0, "images/s"), needs=("testbed",),
    ),
    Row(
        "G1c", "ResNet-50 to an accuracy of 0.7896", "HP", "§VII-B, Exp. 1, Fig. 7",
        "802.4, 1208.48, 1312.6, 1416.9 s; 1.34, 1.39, 1.77 × faster", recomputed=_speedups,
        measured=_times_to_accuracy, needs=("testbed",),
    ),
    Row(
        "G2a", "time of an epoch", "HP", "§VII-B, Exp. 2, Fig. 8", "2.2, 3.5, 4, 4.65 s; 37.14, 45, 52.7 % less",
        recomputed=lambda: _saved(printed.EPOCH_S),
        measured=_simulated("resnet18", WORKERS, ROUND, 2, "s"), needs=("testbed",),
    ),
    Row(
        "G2b", "time of communication", "HP", "§VII-B, Exp. 2, Fig. 9",
        "0.36, 1.34, 1.64, 1.95 s; 73, 78, 81.5 % less", recomputed=lambda: _saved(printed.COMMUNICATION_S),
        measured=_simulated("resnet18", WORKERS, COMMUNICATION, 2, "s after the last gradient"), needs=("testbed",),
    ),
    Row(
        "G3a", "bytes at the PS: ResNet-18, 16 workers", "APL", "§VII-B, Exp. 3, Fig. 10",
        "GOAT 44, ESA 167.2, ATP 198, Geryon 704 MB",
        recomputed=lambda: "GOAT is the model's size, Geryon 16 of them", computed=placement.testbed_server,
        measured=_server_bytes, needs=("testbed", "live"),
    ),
    Row(
        "G3b", "from the first to the last of 16 workers", "A", "§VII-B, Exp. 3", "up to 1.83 s", recomputed=_spread,
    ),
    Row(
        "G8", "communication overhead 81.2 % less", "X", "abstract", "81.2 %",
        recomputed=lambda: f"appears nowhere else; communication time against Geryon is "
        f"{less(1 - printed.COMMUNICATION_S['GOAT'] / printed.COMMUNICATION_S['Geryon'])}",
    ),
)  # fmt: skip
