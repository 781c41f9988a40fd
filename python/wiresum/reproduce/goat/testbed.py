"""§VII-B: what follows from the testbed's printed figures; absolute values need its switches and GPUs."""

from __future__ import annotations

from wiresum.reproduce.goat import printed
from wiresum.reproduce.row import Row
from wiresum.reproduce.words import less, listed, times


def _samples() -> str:
    products = {name: f"{rate * printed.EPOCH_S[name]:.0f}" for name, rate in printed.IMAGES_PER_S.items()}
    fits = printed.IMAGES_PER_S["GOAT"] * printed.EPOCH_S["GOAT"] / printed.EPOCH_S["Geryon"]
    return f"images a “epoch”: {listed(products)}; all alike would make Geryon {fits:.0f} images/s"


def _speedups() -> str:
    ours, others = printed.RESNET50_S["GOAT"], list(printed.RESNET50_SPEEDUPS)
    true = listed({name: times(printed.RESNET50_S[name] / ours) for name in others})
    return f"{true}; the printed 1.34 and 1.39 are 1 + the time saved"


def _saved(seconds: dict[str, float]) -> str:
    ours, *others = seconds.values()
    names = list(seconds)[1:]
    return listed({name: less(1 - ours / other) for name, other in zip(names, others, strict=True)})


ROWS = (
    Row(
        "G1b", "images/s of ResNet-18 with 16 workers", "H", "§VII-B, Exp. 1",
        "GOAT 931, ESA 585, ATP 512, Geryon 465", recomputed=_samples,
    ),
    Row(
        "G1c", "ResNet-50 to an accuracy of 0.7896", "H", "§VII-B, Exp. 1",
        "802.4, 1208.48, 1312.6, 1416.9 s; 1.34, 1.39, 1.77 × faster", recomputed=_speedups,
    ),
    Row(
        "G2a", "time of an epoch", "H", "§VII-B, Exp. 2", "2.2, 3.5, 4, 4.65 s; 37.14, 45, 52.7 % less",
        recomputed=lambda: _saved(printed.EPOCH_S),
    ),
    Row(
        "G2b", "time of communication", "H", "§VII-B, Exp. 2", "0.36, 1.34, 1.64, 1.95 s; 73, 78, 81.5 % less",
        recomputed=lambda: _saved(printed.COMMUNICATION_S),
    ),
    Row(
        "G8", "communication overhead 81.2 % less", "X", "abstract", "81.2 %",
        recomputed=lambda: f"appears nowhere else; communication time against Geryon is "
        f"{less(1 - printed.COMMUNICATION_S['GOAT'] / printed.COMMUNICATION_S['Geryon'])}",
    ),
)  # fmt: skip
