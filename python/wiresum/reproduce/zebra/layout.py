"""§V-D: recirculations of a packet, by layout and packaging (Fig. 10), on the pushes of OA's and SE's workers.

The switch program `keyed` counts them: packets go through it, as often as they have to.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np

from wiresum._native import sparse_layout
from wiresum.bench.result import Report, Result
from wiresum.picture import picture
from wiresum.reproduce.row import Benchmark, Figure, Reports, Row
from wiresum.reproduce.words import listed
from wiresum.reproduce.zebra import printed
from wiresum.sparse.hot import empty_map
from wiresum.sparse.spec import parse
from wiresum.sparse.trace import Trace

MODELS = ("se", "oa")
REGISTERS, PAIRS = 32, 10
"""Neither is printed: four registers in most of the switch's 12 stages, and the most keys that the released program has
headers for, about what 192 bytes hold."""
PUSHES, QUICK_PUSHES = 16, 2
NONE = 1e-3
"""Where a logarithmic axis begins: below one recirculation in a thousand packets."""
SHOWN = (("random", "arrival"), ("heat", "arrival"), ("heat", "algorithm-1"), ("heat", "dealing"))


def hot_positions(trace: Trace, hot: int, worker: int, workers: int) -> list[int]:
    """The distinct hot rows of a worker by position, which is their rank, in the order in which it meets them."""
    keys = trace.batch_of(0, worker, workers).ravel()
    _, first = np.unique(keys, return_index=True)
    ranks = trace.ranks(keys[np.sort(first)])
    return [int(rank) for rank in ranks[ranks < hot]]


def _measure(quick: bool, progress: Callable[[str], None]) -> Report:
    pushes, results = QUICK_PUSHES if quick else PUSHES, []
    for model in MODELS:
        progress(printed.NAMES[model])
        trace, hot = parse(model), printed.HOT_ROWS[model]
        empty = empty_map(1, hot)
        drawn = [hot_positions(trace, hot, worker, pushes) for worker in range(pushes)]
        for one in json.loads(sparse_layout(empty, drawn, REGISTERS, PAIRS, 1)):
            name = f"{model}, {one['layout']}, {one['packaging']}"
            results.append(Result(name, "recirculations a packet", [one["program"]], {"model": model, **one}))
    return Report("layout", {"registers": REGISTERS, "pairs": PAIRS, "pushes": pushes}, results)


def _of(report: Report, model: str) -> dict[tuple[str, str], Result]:
    found = (one for one in report.results if one.extra["model"] == model)
    return {(one.extra["layout"], one.extra["packaging"]): one for one in found}


def _counted(reports: Reports) -> str:
    report, said = reports.report("layout"), []
    for model in MODELS:
        found = _of(report, model)
        released = found["random", "arrival"].extra["one_pair_a_pass"]
        each = listed({
            f"{layout} layout, {packaging}": f"{found[layout, packaging].median:.3f}" for layout, packaging in SHOWN
        })  # fmt: skip
        dealt = found["heat", "dealing"].extra
        said.append(
            f"{printed.NAMES[model]}: released program, one pair a pass, {released:.1f}; "
            f"`keyed`, one of each register a pass: {each}, with "
            f"{dealt['packets'] / dealt['full_packets']:.3f} × the fewest packets"
        )
    return f"{'; '.join(said)} ({REGISTERS} registers, {PAIRS} pairs a packet)"


def _remark() -> str:
    return (
        f"a packet of {PAIRS} pairs recirculates {PAIRS - 1} times if a pass takes one pair, as in the released "
        "program, whatever the layout: that is about the printed 10. §IV allows one at most"
    )


def draw(report: Report, path: Path) -> None:
    """Draws the recirculations of a packet for each layout and packaging, as Fig. 10.

    Raises:
        SupportError: matplotlib is not installed.
    """
    with picture(path, 1, len(MODELS), figsize=(9.0, 3.6), sharey=True) as (_, axes):
        for one, model in zip(axes, MODELS, strict=True):
            found = _of(report, model)
            released = found["random", "arrival"].extra["one_pair_a_pass"]
            bars = {"one pair\na pass": released}
            bars |= {f"{layout},\n{packaging}": found[layout, packaging].median for layout, packaging in SHOWN}
            one.bar(list(bars), [max(value, NONE) for value in bars.values()], width=0.6)
            for place, value in enumerate(bars.values()):
                one.text(place, max(value, NONE) * 1.15, f"{value:.3g}", ha="center", fontsize=8)
            one.set(title=printed.NAMES[model], yscale="log", ylim=(NONE, 30))
            one.tick_params(axis="x", labelsize=8)
            one.spines[["top", "right"]].set_visible(False)
        axes[0].set(ylabel="recirculations a packet")


NETWORK = (
    "popularity of Fig. 4, pushes of 256 samples of 100 lookups, packed, counted by the program `keyed`, no network"
)
BENCHMARKS = {"layout": Benchmark("wiresum reproduce zebra --rows Z8", 15, 5, _measure, NETWORK)}
FIGURES = (Figure("Fig. 10", "fig-10-recirculations.png", "layout", draw),)
ROWS = (
    Row(
        "Z8", "recirculations of a packet by layout and packaging, SE and OA", "A", "§V-D, Fig. 10",
        "random layout 10; Zebra's far fewer; more for OA than for SE",
        recomputed=_remark, measured=_counted, needs=("layout",),
    ),
)  # fmt: skip
