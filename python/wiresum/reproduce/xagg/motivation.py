"""§II, Fig. 1: what a slow link and a late worker cost."""

from __future__ import annotations

from wiresum.bench.heterogeneity import measure as heterogeneity
from wiresum.bench.heterogeneity.command import Options
from wiresum.reproduce.row import Reports, Row
from wiresum.reproduce.words import listed

FIG_1 = Options(rate_bps=10e9, slow_rate_bps=5e9, late_s=2.0, size_bytes=1_250_000_000)
"""The paper's own setting; measured at 1:100, in which the same theory gives the same seconds."""
NAMES = {"ps": "parameter server", "pool": "summing switch", "xagg": "XAgg"}


def by_fluid() -> str:
    """Max-min fair shares, without headers, results not counted."""
    seconds = {
        name: f"{heterogeneity.in_theory(heterogeneity.METHODS[method], FIG_1):.3f} s" for method, name in NAMES.items()
    }
    return f"fluid: {listed(seconds)}"


def measured(reports: Reports) -> str:
    """Medians, and how much longer than the fluid with headers."""
    report = reports.report("heterogeneity")
    found = {
        NAMES.get(result.name, result.name): f"{result.median:.2f} s ({result.median / result.extra['bound_s']:.3f} × "
        "the fluid with headers)"
        for result in report.results
    }
    return f"live at 1:100: {listed(found)}"


ROWS = (
    Row(
        "X1",
        "time until everything is summed: 1.25 GB, links of 10 Gbit/s, one of 5, one worker 2 s late",
        "AL",
        "§II-A, Fig. 1",
        "parameter server 4 s, summing switch 4 s, XAgg 3 s",
        recomputed=lambda: "the same: 10/3 Gbit/s each until 2 s, 2.5 until 10/3 s, then W3 alone until 4 s",
        computed=by_fluid,
        measured=measured,
        needs=("heterogeneity",),
    ),
)
