"""What `wiresum bench line` measures: each engine and number of workers on links of its own, Gloo in turn."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from itertools import product

from wiresum import _native, wire
from wiresum.bench.line.command import Options
from wiresum.bench.line.worker import Task
from wiresum.bench.result import Ratio, Report, Result
from wiresum.bench.workers import view
from wiresum.plan.choices import Engine, Transport
from wiresum.plan.job import Job
from wiresum.plan.options import PlanOptions
from wiresum.planners import plan
from wiresum.testbed import Testbed
from wiresum.topology.generators.star import star

LANE_BYTES = 4
ALONE_LANES = "int32-le"
"""Those of the workers that are measured without a network."""
BITS = 8
GIGA = 1e9
PARTS = {
    "process": "rank's process",
    "engine": "of it the engine's thread",
    "machine": "whole machine",
    "softirq": "of it softirq",
}
Samples = Sequence[dict[str, float]]


def measure(options: Options, progress: Callable[[str], None]) -> Report:
    """Every case in turn; the network of each is taken down before the next.

    Raises:
        TestbedError: a worker failed; the message has the end of its output.
    """
    results: list[Result] = []
    ratios: list[Ratio] = []
    notes: list[str] = []
    cases = product(options.engines, options.transports, options.workers, options.threads)
    medians: dict[tuple[str, int, int], float] = {}
    gloo: dict[tuple[int, int], float] = {}
    for engine, transport, workers, threads in cases:
        one = f"{engine}, {transport} workers, {workers} of them"
        case = one if threads == 1 else f"{one}, {threads} threads"
        progress(f"{case}: {', '.join(f'{size / 1e6:g} MB' for size in options.sizes)}")
        for size, samples in run(options, engine, transport, workers, threads).items():
            name = f"{case}, {size / 1e6:g} MB"
            medians[one, size, threads] = median(samples["wiresum"], "elapsed")
            results += [to_result(f"{name}: {way}", size, workers, runs) for way, runs in samples.items()]
            ratios += to_ratios(name, samples)
            notes += [describe(f"{name}: {way}", size, workers, runs) for way, runs in samples.items()]
            gloo[workers, size] = median(samples["gloo"], "process")
    ratios += of_threads(medians)
    if options.lanes == ALONE_LANES:
        for workers, size in product(options.workers, options.sizes):
            progress(f"{workers} workers without a network: {size / 1e6:g} MB")
            result, ratio = alone(options, workers, size, gloo[workers, size] / workers)
            results.append(result)
            ratios.append(ratio)
    parameters = {
        "rate_bps": options.rate_bps,
        "core_share": options.core_share,
        "lanes": options.lanes,
        "window": options.window,
        "mtu_bytes": options.mtu_bytes,
        "topology": "star in network namespaces",
    }
    return Report("line", parameters, results, ratios, notes=[*notes, *EXPLANATION])


EXPLANATION = (
    "Processor seconds per GB of one rank's tensor: of a rank's process with the kernel on its behalf, of the whole "
    "machine per rank. The machine's are everybody's, in ticks of 10 ms: they mean something on an idle machine alone.",
    "without a network: sessions and an aggregator in one thread, which hand packets over in memory; what is left of a "
    "worker is conversion, protocol, and what it keeps.",
    "bare TCP and UDP: the tensor's bytes once from rank 0 to rank 1, so half of what a rank sends and receives.",
)


def alone(options: Options, workers: int, size: int, gloo_s: float) -> tuple[Result, Ratio]:
    """What a worker's own part takes: all but what carries its packets, which are handed over in memory.

    Args:
        options: of the benchmark.
        workers: of a star.
        size: bytes of the float32 tensor.
        gloo_s: processor seconds of a rank over Gloo, as they were measured last.
    """
    values = Job(mtu_bytes=options.mtu_bytes, lanes=options.lanes).packet_values
    worker_s, server_s = _native.bench_worker(
        workers, size // LANE_BYTES, values, options.window, keeps=True, runs=options.repeats
    )
    name = f"without a network, {workers} workers, {size / 1e6:g} MB"
    scale = GIGA / size
    spent = {"worker": scale * statistics.median(worker_s), "aggregator": scale * statistics.median(server_s)}
    return (
        Result(f"{name}: a worker's own part", "s", worker_s, {"cpu_s_per_gb": spent}),
        Ratio(f"{name}: a worker's own part / processor time of a rank, gloo", statistics.median(worker_s) / gloo_s),
    )


def run(
    options: Options, engine: Engine, transport: Transport, workers: int, threads: int = 1
) -> dict[int, dict[str, list[dict[str, float]]]]:
    """Samples of one network, by size of the tensor and way."""
    topology = star(workers, options.rate_bps)
    job = Job(
        mtu_bytes=options.mtu_bytes, lanes=options.lanes, gradient_bytes=max(options.sizes), window=options.window,
        threads=threads,
    )  # fmt: skip
    packet_bytes = wire.HEADER_LEN + LANE_BYTES * job.packet_values
    placed = plan(topology, job, PlanOptions(engine=engine))
    with Testbed(topology, placed, mtu_bytes=options.mtu_bytes, transport=transport) as bed:
        output = str(bed.folder / "line.json")
        task = Task(list(options.sizes), options.repeats, options.warmups, packet_bytes, options.core_share, output)
        seen = view(bed, task)
    return {int(size): samples for size, samples in seen["measured"].items()}


def to_result(name: str, size: int, workers: int, samples: Samples) -> Result:
    """Seconds of each run, with the rate of a worker's gradient and the processor time of each part."""
    seconds = [sample["elapsed"] for sample in samples]
    rate = BITS * size / statistics.median(seconds) / GIGA
    return Result(name, "s", seconds, {"gradient_gbps": rate, "cpu_s_per_gb": per_gb(size, workers, samples)})


def per_gb(size: int, workers: int, samples: Samples) -> dict[str, float]:
    """Median processor seconds of each part, per rank and GB of tensor."""
    scale = GIGA / size / workers
    return {part: scale * statistics.median(sample[part] for sample in samples) for part in PARTS}


def median(samples: Samples, part: str) -> float:
    """The median of one part."""
    return statistics.median(sample[part] for sample in samples)


def to_ratios(name: str, samples: dict[str, list[dict[str, float]]]) -> list[Ratio]:
    """How much quicker than Gloo, and at which part of its processor time."""
    ours, gloo = samples["wiresum"], samples["gloo"]
    return [
        Ratio(f"{name}: gloo / wiresum", median(gloo, "elapsed") / median(ours, "elapsed")),
        Ratio(f"{name}: processor time of a rank, wiresum / gloo", median(ours, "process") / median(gloo, "process")),
    ]


def of_threads(medians: dict[tuple[str, int, int], float]) -> list[Ratio]:
    """How much quicker with more threads than with one, where both were measured."""
    return [
        Ratio(f"{case}, {size / 1e6:g} MB: one thread / {threads}", medians[case, size, 1] / seconds)
        for (case, size, threads), seconds in medians.items()
        if threads > 1 and (case, size, 1) in medians
    ]


def describe(name: str, size: int, workers: int, samples: Samples) -> str:
    """The processor time for people."""
    parts = per_gb(size, workers, samples)
    rate = BITS * size / statistics.median(sample["elapsed"] for sample in samples) / GIGA
    said = ", ".join(f"{words} {parts[part]:.2f}" for part, words in PARTS.items())
    return f"{name}: {rate:.2f} Gbit/s of gradient; processor s/GB: {said}"
