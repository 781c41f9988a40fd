"""What `wiresum bench line` measures: each engine and number of workers on links of its own, Gloo in turn."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

from wiresum import wire
from wiresum.bench.aggregator.network import cpu_s, tasks
from wiresum.bench.line.alone import alone
from wiresum.bench.line.command import Options
from wiresum.bench.line.cores import serving_threads, slower_cores
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
    of_servers = options.node_threads or (None,)
    cases = product(options.engines, options.transports, options.workers, options.threads, of_servers)
    medians: dict[tuple[str, int, int], float] = {}
    by_server: dict[tuple[str, int, int], float] = {}
    gloo_s: dict[tuple[int, int], float] = {}
    for engine, transport, workers, threads, of_server in cases:
        one = f"{engine}, {transport} workers, {workers} of them"
        ranks = one if threads == 1 else f"{one}, {threads} threads"
        at_server = "" if of_server is None else f", {of_server} at the server"
        case = ranks + at_server
        progress(f"{case}: {', '.join(f'{size / 1e6:g} MB' for size in options.sizes)}")
        by_size, spent = run(options, engine, transport, workers, threads, node_threads=of_server)
        notes.append(f"{case}: {spent}")
        for size, samples in by_size.items():
            name = f"{case}, {size / 1e6:g} MB"
            seconds = median(samples["wiresum"], "elapsed")
            medians[one + at_server, size, threads] = by_server[ranks, size, of_server or 0] = seconds
            results += [to_result(f"{name}: {way}", size, workers, runs) for way, runs in samples.items()]
            ratios += to_ratios(name, samples)
            notes += [describe(f"{name}: {way}", size, workers, runs) for way, runs in samples.items()]
            gloo_s[workers, size] = median(samples["gloo"], "process") / workers
    ratios += [*of_threads(medians), *of_threads(by_server, " at the server")]
    for result, ratio in alone(options, gloo_s, progress):
        results.append(result)
        ratios.append(ratio)
    parameters = {
        "rate_bps": options.rate_bps,
        "core_share": options.core_share,
        "node_core_share": options.node_core_share,
        "lanes": options.lanes,
        "window": options.window,
        "mtu_bytes": options.mtu_bytes,
        "jumbo": options.jumbo,
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


def run(
    options: Options,
    engine: Engine,
    transport: Transport,
    workers: int,
    threads: int = 1,
    *,
    node_threads: int | None = None,
) -> tuple[dict[int, dict[str, list[dict[str, float]]]], str]:
    """Samples of one network, by size of the tensor and way; and what its server took for a datagram, for people."""
    topology = star(workers, options.rate_bps)
    job = Job(
        mtu_bytes=options.mtu_bytes, jumbo=options.jumbo, lanes=options.lanes, gradient_bytes=max(options.sizes),
        window=options.window, threads=threads,
    )  # fmt: skip
    packet_bytes = wire.HEADER_LEN + LANE_BYTES * job.packet_values
    placed = plan(topology, job, PlanOptions(engine=engine))
    with Testbed(topology, placed, mtu_bytes=options.mtu_bytes, transport=transport, node_threads=node_threads) as bed:
        (server,) = bed.deployment.daemons.values()
        output = str(bed.folder / "line.json")
        task = Task(list(options.sizes), options.repeats, options.warmups, packet_bytes, options.core_share, output)
        process = server.process.pid
        with slower_cores(options.node_core_share, lambda: serving_threads(process)):
            before = cpu_s(tasks(process))
            seen = view(bed, task)
        spent = describe_server(cpu_s(tasks(process)) - before, server.ask("status"))
    return {int(size): samples for size, samples in seen["measured"].items()}, spent


def describe_server(seconds: float, status: dict[str, Any]) -> str:
    """What a server took for all that came to its socket, joins included; little comes there where the kernel sums."""
    received = status["socket"]["datagrams_received"]
    each = f"{seconds / received * 1e6:.2f} µs" if received else "nothing"
    threads = "1 thread" if status["threads"] == 1 else f"{status['threads']} threads"
    return f"the server with {threads} took {seconds:.2f} s of processors for {received} datagrams: {each} each"


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


def of_threads(medians: dict[tuple[str, int, int], float], where: str = "") -> list[Ratio]:
    """How much quicker with more threads than with one, where both were measured."""
    return [
        Ratio(f"{case}, {size / 1e6:g} MB: one thread{where} / {threads}", medians[case, size, 1] / seconds)
        for (case, size, threads), seconds in medians.items()
        if threads > 1 and (case, size, 1) in medians
    ]


def describe(name: str, size: int, workers: int, samples: Samples) -> str:
    """The processor time for people."""
    parts = per_gb(size, workers, samples)
    rate = BITS * size / statistics.median(sample["elapsed"] for sample in samples) / GIGA
    said = ", ".join(f"{words} {parts[part]:.2f}" for part, words in PARTS.items())
    return f"{name}: {rate:.2f} Gbit/s of gradient; processor s/GB: {said}"
