"""Workers without a network: sessions and an aggregator in one thread, which hand packets over in memory."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Mapping

from wiresum import _native
from wiresum.bench.line.command import Options
from wiresum.bench.result import Ratio, Result
from wiresum.plan.job import Job

LANES = "int32-le"
"""Those that are measured."""
LANE_BYTES = 4
GIGA = 1e9


def alone(
    options: Options, gloo_s: Mapping[tuple[int, int], float], progress: Callable[[str], None]
) -> Iterator[tuple[Result, Ratio]]:
    """What a worker's own part takes: all but what carries its packets.

    Args:
        options: of the benchmark.
        gloo_s: processor seconds of a rank over Gloo, by number of workers and bytes of the tensor.
        progress: is told what comes next.
    """
    if options.lanes != LANES:
        return
    values = Job(mtu_bytes=options.mtu_bytes, jumbo=options.jumbo, lanes=options.lanes).packet_values
    for (workers, size), rival_s in gloo_s.items():
        name = f"without a network, {workers} workers, {size / 1e6:g} MB"
        progress(name)
        worker_s, server_s = _native.bench_worker(
            workers, size // LANE_BYTES, values, options.window, keeps=True, runs=options.repeats
        )
        own_s, scale = statistics.median(worker_s), GIGA / size
        spent = {"worker": scale * own_s, "aggregator": scale * statistics.median(server_s)}
        yield (
            Result(f"{name}: a worker's own part", "s", worker_s, {"cpu_s_per_gb": spent}),
            Ratio(f"{name}: a worker's own part / processor time of a rank, gloo", own_s / rival_s),
        )
