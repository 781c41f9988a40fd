"""§V-E: what the switch's processor takes for the sums of an iteration, live with the program in the kernel."""

from __future__ import annotations

from collections.abc import Callable
from statistics import median

from wiresum.bench import pairs
from wiresum.bench.result import Report
from wiresum.reproduce.row import Benchmark, Reports, Row
from wiresum.reproduce.zebra import printed

WORKERS, RATE_BPS = 2, 100e6
HOT_KEYS = (10, 3_000, 30_000)
ITERATIONS, QUICK_ITERATIONS = 20, 3


def _measure(quick: bool, progress: Callable[[str], None]) -> Report:
    iterations = QUICK_ITERATIONS if quick else ITERATIONS
    results = []
    for hot in HOT_KEYS:
        progress(f"the station with {hot:,} hot keys")
        results.append(pairs.measure(WORKERS, RATE_BPS, hot, iterations))
    return Report("station", {"workers": WORKERS, "rate_bps": RATE_BPS, "iterations": iterations}, results)


def _station(reports: Reports) -> str:
    results = reports.report("station").results
    where = "XDP" if all(one.extra["in_kernel"] for one in results) else "user space over loopback"
    found = [
        f"{one.extra['hot']:,} hot keys {1e3 * one.extra['station_s']:.2f} ms of {1e3 * median(one.runs):.1f} ms"
        for one in results
    ]
    return (
        f"the station of `keyed` in {where}, {WORKERS} workers that push every hot key; from complete to the sums on "
        f"their way, of a whole iteration: {'; '.join(found)}"
    )


NETWORK = f"{WORKERS} workers and a server in network namespaces, links of {RATE_BPS / 1e6:g} Mbit/s, the switch in XDP"
BENCHMARKS = {"station": Benchmark("wiresum reproduce zebra --rows Z10", 40, 15, _measure, NETWORK)}
ROWS = (
    Row(
        "Z10", "latency that the switch's processor adds to a packet", "H", "§V-E", f"{printed.STATION_MS} ms",
        measured=_station, needs=("station",),
    ),
)  # fmt: skip
