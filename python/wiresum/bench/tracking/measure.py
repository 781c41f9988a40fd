"""The hot set of a running job beside what could be reached: one who knows the true popularity of the round before."""

from __future__ import annotations

from collections.abc import Iterable

from wiresum import _native
from wiresum.bench.native import to_result
from wiresum.bench.result import Ratio, Report, Result

AIMS = {0.0002: 0.97, 0.002: 0.93}
"""Share of what the most popular rows get, by the share of the top ranks that is replaced in a round."""


def measure(rounds: int, runs: int) -> Report:
    """Coverage of the hot set, however it is found.

    Args:
        rounds: of a run; the first 20 do not count.
        runs: with seeds from 1 on.
    """
    results = [to_result(row) for row in _native.bench_tracking(rounds, runs)]
    parameters = {"rounds": rounds, "runs": runs, "aims": {str(share): aim for share, aim in AIMS.items()}}
    notes = [
        "`known` chooses by the true popularity of the round before: nobody who decides as often does better",
        "`even`: each of the top ranks is as likely to be replaced as another; `logarithmic`: each as likely as ten "
        "times that rank and its neighbours",
    ]
    return Report("tracking", parameters, results, ratios(results), notes=notes)


def ratios(results: Iterable[Result]) -> list[Ratio]:
    """What is tracked over what is known, with the same drift and period."""
    rows = list(results)
    found = {(r.extra["drift"], r.extra["replaced"], r.extra["way"]): r for r in rows}
    pairs = []
    for (drift, replaced, way), row in found.items():
        known = found.get((drift, replaced, way.replace("tracked", "known")))
        if way.startswith("tracked") and known:
            pairs.append((row, known))
    return [Ratio(f"{one.name} / known", one.median / other.median) for one, other in pairs]
