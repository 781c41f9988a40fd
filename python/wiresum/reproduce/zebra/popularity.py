"""§II-B and §III-A: how biased updates are (Fig. 4, Table I)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from wiresum.bench.result import Report, Result
from wiresum.picture import picture
from wiresum.plan.models import MODELS, count
from wiresum.reproduce.row import Benchmark, Figure, Reports, Row
from wiresum.reproduce.words import listed, percent
from wiresum.reproduce.zebra import printed
from wiresum.sparse import synthetic
from wiresum.sparse.counts import Counts
from wiresum.sparse.spec import parse
from wiresum.sparse.synthetic import LAWS

ROUNDS, QUICK_ROUNDS = 4, 1
POINTS = 50
FLOAT_MB = 4e-6
SIZE_INCHES = (9.0, 6.0)


def _measure(quick: bool, progress: Callable[[str], None]) -> Report:
    rounds, results = QUICK_ROUNDS if quick else ROUNDS, []
    for model, law in LAWS.items():
        progress(model)
        counts = Counts.of(parse(model), printed.SAMPLED_WORKERS, rounds)
        pushed = counts.rows_up_to(1) / counts.pushed
        tops = np.unique(np.geomspace(1, min(100_000, law().rows), POINTS).astype(np.int64))
        curve = {"tops": tops.tolist(), "looked_up": law().share(tops).tolist()}
        curve["updated"] = [float(pushed[counts.place(int(top))]) for top in tops]
        for top in printed.POPULAR[model]:
            shares = {"top": top, "looked_up": float(law().share(np.array([top]))[0])}
            results.append(
                Result(f"{model}, top {top}", "share", [float(pushed[counts.place(top)])], {**shares, "model": model})
            )
        results.append(Result(model, "rows", [float(law().rows)], curve))
    return Report("popularity", {"rounds": rounds, "workers": printed.SAMPLED_WORKERS}, results)


def _shares(reports: Reports) -> str:
    said: dict[str, list[str]] = {}
    for one in reports.report("popularity").results:
        if "top" in one.extra:
            looked_up, updated = percent(one.extra["looked_up"], 0), percent(one.median, 0)
            said.setdefault(printed.NAMES[one.extra["model"]], []).append(
                f"top {one.extra['top']:,} {looked_up} of the lookups, {updated} of the updates"
            )
    parts = listed({name: " and ".join(texts) for name, texts in said.items()})
    return f"{parts}; updates of {printed.SAMPLED_WORKERS} workers with 256 samples of 100 lookups, which they merge"


def most_merged(top: int) -> float:
    """The largest share of NCF's pushes that so many rows can have, if a worker pushes a row once in an iteration.

    Example:
        >>> round(most_merged(100), 4)
        0.0093
    """
    return top / (pushed_share() * printed.NCF_PARAMETERS)


def _exponents() -> str:
    fits = {
        "OA": synthetic.OA[1], "SE": synthetic.SE[1], "DeepLight": synthetic.DEEPLIGHT[1],
    }  # fmt: skip
    exponents = listed({name: f"s = {value}" for name, value in fits.items()})
    return (
        f"power laws with these shares: {exponents}; NCF has two pieces, as no single one has both of its shares. If "
        f"{percent(pushed_share())} of NCF's rows are pushed in an iteration (Z2), 100 rows are at most "
        f"{percent(most_merged(100))} of the pushes, not 40 %: Fig. 4 counts lookups, before workers merge them"
    )


def draw(report: Report, path: Path) -> None:
    """Draws each model's curve: lookups, what is left of it where workers merge, and the paper's figures.

    Raises:
        SupportError: matplotlib is not installed.
    """
    with picture(path, 2, 2, figsize=SIZE_INCHES) as (_, axes):
        curves = {one.name: one.extra for one in report.results if "tops" in one.extra}
        for one, (model, curve) in zip(axes.ravel(), curves.items(), strict=True):
            thousands = np.array(curve["tops"]) / 1000
            one.plot(thousands, 100 * np.array(curve["looked_up"]), label="lookups")
            one.plot(thousands, 100 * np.array(curve["updated"]), "--", label="updates, 256 samples a worker")
            shares = printed.POPULAR[model]
            one.plot([top / 1000 for top in shares], [100 * share for share in shares.values()], "k*", label="printed")
            one.set(title=printed.NAMES[model], ylim=(0, 100), xlim=(0, None))
            one.set(xlabel="top parameters (thousands)", ylabel="share of all (%)")
            one.spines[["top", "right"]].set_visible(False)
        axes[0, 0].legend(frameon=False, fontsize=8)


def pushed_share() -> float:
    """The share of NCF's sparse gradient that is not zero.

    Example:
        >>> round(pushed_share(), 3)
        0.153
    """
    return printed.NCF_PUSHED_MB / printed.NCF_SPARSE_MB


def _ncf_arithmetic() -> str:
    value_kb = printed.NCF_SPARSE_MB * 1e3 / printed.NCF_PARAMETERS
    return (
        f"{percent(pushed_share())} are not zero; 680 MB over the 0.07 million parameters of Fig. 4 are "
        f"{value_kb:.1f} KB each, so its parameters are rows"
    )


def lookups_for(share: float) -> int:
    """Lookups after which this share of NCF's rows has been touched."""
    law = LAWS["ncf"]()
    chances = law.chance(np.arange(law.rows))
    low, high = 1.0, 1e9
    while high / low > 1.001:  # noqa: PLR2004 - to a thousandth
        middle = (low * high) ** 0.5
        touched = float(-np.expm1(middle * np.log1p(-chances)).mean())
        low, high = (middle, high) if touched < share else (low, middle)
    return round(high)


def _ncf() -> str:
    dense = FLOAT_MB * count(MODELS["ncf"]())
    return (
        f"NCF's dense parameters at MLPerf's sizes: {dense:.2f} MB; of the two-piece popularity "
        f"{percent(pushed_share())} of the rows are touched by {lookups_for(pushed_share()):,} lookups of a worker"
    )


NETWORK = "256 samples of 100 lookups a worker, counted, no network"
BENCHMARKS = {"popularity": Benchmark("wiresum reproduce zebra --rows Z1", 30, 8, _measure, NETWORK)}
FIGURES = (Figure("Fig. 4", "fig-04-popularity.png", "popularity", draw),)
ROWS = (
    Row(
        "Z1", "share of the updates that the most updated parameters get", "AX", "§III-A, Fig. 4",
        "OA (150 million) top 30,000 > 50 %; SE (9 million) top 30,000 about 70 %; DeepLight (0.32 million) top 30,000 "
        "40 %; NCF (0.07 million) top 100 about 40 %, top 5,000 > 50 %",
        recomputed=_exponents, measured=_shares, needs=("popularity",),
    ),
    Row(
        "Z2", "sizes: MLP, CM and DIN; NCF's gradients in an iteration", "A", "§II-B, Table I",
        "SparseNet 18, 5 and 18 billion, DenseNet 1.2, 1 and 1.7 million; NCF 680 MB sparse, about 104 MB of it not "
        "zero, 0.4 MB dense", recomputed=_ncf_arithmetic, computed=_ncf,
    ),
)  # fmt: skip
