"""`wiresum bench security --sealed`: what sealed sums cost, on links and in a rank.

Method. A star of workers around one server, whose daemon serves two jobs that differ in their seals alone. Each worker
has joined both and sums the same values in turns; the figures are the time of a sum and the processor time of rank 0's
engine for each gigabyte of values. Besides, on one core, the time of sealing and of opening a packet, and of encoding
it, which a rank does anyway.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable

from wiresum import _native, wire
from wiresum.bench.result import Ratio, Report, Result
from wiresum.bench.security.command import Options
from wiresum.bench.security.sums import Task
from wiresum.bench.service_bed import MEMORY
from wiresum.bench.workers import view
from wiresum.deploy.deployment import Deployment
from wiresum.errors import SupportError
from wiresum.plan.choices import Engine
from wiresum.plan.job import Job
from wiresum.plan.options import PlanOptions
from wiresum.planners import plan
from wiresum.testbed import Testbed
from wiresum.topology.generators.star import star

WORKERS = 4
"""Those of the aim: sealed sums in at most 1.04 times the time of open ones."""
FLOAT32_BYTES = 4
PACKETS = (64, 128, 256, 352, 512, wire.PAGE_VALUES - wire.SEAL_LEN // FLOAT32_BYTES)
"""Values in a packet with its seal, up to the most."""
JOBS = {"open": Job(id=1), "sealed": Job(id=2, sealed=True)}


def measure(options: Options, progress: Callable[[str], None] = lambda line: None) -> Report:
    """Measures sums on every engine, and packets on one core.

    Args:
        options: what to measure.
        progress: takes a line about what is going on.

    Raises:
        SupportError: no namespaces, or no XDP.
        TestbedError: a worker failed; the message has the end of its output.
    """
    results: list[Result] = []
    for engine in options.engines:
        progress(f"{engine}: {WORKERS} workers sum in the open and sealed, in turns")
        results += in_turns(engine, options)
    ratios = [ratio for engine in options.engines for ratio in over_open(engine, results)]
    progress("packets, on one core")
    results += packets(options.runs)
    parameters = {
        "rate_bps": options.rate_bps, "workers": WORKERS, "size_bytes": options.size_bytes, "runs": options.runs,
    }  # fmt: skip
    return Report("security-sealed", parameters, results, ratios)


def in_turns(engine: Engine, options: Options) -> list[Result]:
    """Seconds of open and sealed sums, and processor time for each GB."""
    topology = star(WORKERS, options.rate_bps)
    first, second = (plan(topology, job, PlanOptions(engine=engine)) for job in JOBS.values())
    with Testbed(topology, first, mtu_bytes=Job().mtu_bytes) as bed:
        if bed.why_loopback:
            raise SupportError(f"this benchmark needs network namespaces: {bed.why_loopback}")
        bed.deployment.stop()
        # The daemon of a testbed has room for its own plan.
        with Deployment(bed, first, ["--memory", MEMORY]) as deployment:
            files = dict(zip(JOBS, (deployment.plan_file, deployment.add(second)), strict=True))
            measured = sums(bed, {name: str(file) for name, file in files.items()}, options)
    gigabytes = options.size_bytes / 1e9
    return [
        Result(f"{engine}: {name} {what}", unit, [run / per for run in measured[name][key]],
               {"engine": engine, "job": name, "figure": key})
        for what, unit, key, per in (("sum", "s", "seconds", 1.0), ("processor time", "s/GB", "cpu", gigabytes))
        for name in JOBS
    ]  # fmt: skip


def sums(bed: Testbed, plans: dict[str, str], options: Options) -> dict[str, dict[str, list[float]]]:
    """What rank 0 has measured of these jobs."""
    task = Task(plans, options.size_bytes // FLOAT32_BYTES, options.runs, str(bed.folder / "sums.json"))
    return view(bed, task)


def over_open(engine: Engine, results: list[Result]) -> list[Ratio]:
    """Sealed over open, of what was measured in the same turn."""
    of = {(r.extra["job"], r.extra["figure"]): r.runs for r in results if r.extra["engine"] == engine}
    return [
        Ratio(f"{engine}: sealed {what} / open", statistics.median(
            sealed / in_open for sealed, in_open in zip(of["sealed", key], of["open", key], strict=True)
        ))
        for what, key in (("sum", "seconds"), ("processor time", "cpu"))
    ]  # fmt: skip


def packets(runs: int) -> list[Result]:
    """Nanoseconds of each step of a packet, by its values."""
    rows = _native.bench_seal(list(PACKETS), runs)
    return [
        Result(row["name"], "ns", row["runs"], {key: row[key] for key in ("step", "lanes", "values")}) for row in rows
    ]
