"""§VI: completion times, by the paper's own model of progress (Theorem 1 and Eq. 42)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from wiresum.plan.models import MODELS, count
from wiresum.planners.ingo.batch_size import MAX_BATCH_SIZE, MIN_BATCH_SIZE
from wiresum.reproduce.ingo import printed
from wiresum.reproduce.ingo.ingo_training import measure as ingo_training
from wiresum.reproduce.row import Reports, Row
from wiresum.reproduce.words import less, listed, times

MODEL_BITS = 32 * count(MODELS["inception-v3"]())


def saved(seconds: Mapping[str, float]) -> str:
    """What InGo saves against each."""
    others = [name for name in seconds if name != "InGo"]
    return listed({name: less(1 - seconds["InGo"] / seconds[name]) for name in others})


def gain_over_fixed(batch_size: float, best: float) -> float:
    """Time with batches of 64 over time with this size, if b* is the best: both wait (c·b + c·b*) / √b per unit."""
    fixed = printed.FIXED_BATCH_SIZE
    return (fixed + best) / math.sqrt(fixed) / ((batch_size + best) / math.sqrt(batch_size))


def highest_gain() -> float:
    """Over InGo-64, whatever the workers: in the limits where only computation, or only waiting, takes time."""
    return max(gain_over_fixed(MIN_BATCH_SIZE, 0.0), gain_over_fixed(MAX_BATCH_SIZE, 1e12))


def gain(seconds: Mapping[str, float]) -> str:
    """By how much the batch size alone is said to help, and how much it can."""
    ratio = seconds["InGo-64"] / seconds["InGo"]
    within = "within it" if ratio <= highest_gain() else "beyond it"
    return (
        f"{times(ratio)} over InGo-64 on the same paths; sizes of 16 to 256 allow {times(highest_gain())} at most "
        f"by the paper's √b: {within}"
    )


def step_seconds() -> str:
    """InGo-64, GRID and ATP differ in M/f alone, so each pair tells the rest of a step."""
    transfer = {name: MODEL_BITS / (gbps * 1e9) for name, gbps in printed.TESTBED_GBPS.items()}

    def rest(name: str, rate_of: str) -> float:
        ratio = printed.TESTBED_S[name] / printed.TESTBED_S["InGo-64"]
        return (transfer[rate_of] - ratio * transfer["InGo"]) / (ratio - 1)

    as_printed = listed({name: f"{rest(name, name):.1f} s" for name in ("GRID", "ATP")})
    exchanged = listed({name: f"{rest(name, other):.1f} s" for name, other in (("GRID", "ATP"), ("ATP", "GRID"))})
    return f"computation of a step by the rates of Fig. 2: {as_printed}; with the two exchanged: {exchanged}"


def _trained(network: str) -> Callable[[Reports], str]:
    """Medians of the trainings of a network."""

    def measured(reports: Reports) -> str:
        found = ingo_training.of(reports.report("training"), network)
        ours = found["InGo"].median
        said = {
            scheme: f"{one.median:.0f} s (batches of {one.extra['batch_size']}; InGo {less(1 - ours / one.median)})"
            for scheme, one in found.items()
            if scheme != "InGo"
        }
        tuned = f"InGo {ours:.0f} s (batches of {found['InGo'].extra['batch_size']})"
        return f"digits to {ingo_training.TARGET}, steps as long as planned: {tuned}, {listed(said)}"

    return measured


ROWS = (
    Row(
        "I3", "Inception-V3, CIFAR-100, to 54 %, testbed", "HA", "§VI-B, Figs. 4 and 5",
        "InGo 617.7, InGo-64 826.2, GRID 908.7, ATP 1120.4 s; 25.2, 32.0, 44.9 % less",
        recomputed=lambda: f"{saved(printed.TESTBED_S)}; {gain(printed.TESTBED_S)}; {step_seconds()}",
        measured=_trained(ingo_training.TESTBED), needs=("training",),
    ),
    Row(
        "I6", "the same in the fat-tree, 50 workers", "HA", "§VI-C, Figs. 8 and 9",
        "169.8, 495.7, 599.8, 672.3 s; 65.7, 71.6, 74.7 % less",
        recomputed=lambda: f"{saved(printed.SIMULATED_S)}; {gain(printed.SIMULATED_S)}",
        measured=_trained(ingo_training.FAT_TREE), needs=("training",),
    ),
    Row(
        "I11", "completion time less", "A", "abstract", "25.2 to 74.7 %",
        recomputed=lambda: f"I3 and I6: {saved({k: printed.TESTBED_S[k] for k in ('InGo', 'InGo-64')})}, "
        f"{saved({k: printed.SIMULATED_S[k] for k in ('InGo', 'ATP')})}",
    ),
)  # fmt: skip
