"""`wiresum bench heterogeneity`: what a slow link and a late worker cost, by method (XAgg, Fig. 1)."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wiresum import wire
from wiresum.bench import late
from wiresum.bench.baselines import BASELINES
from wiresum.bench.heterogeneity.command import Options
from wiresum.bench.result import Ratio, Report, Result
from wiresum.bench.sending_rates import SendingRates
from wiresum.errors import PlanError, TestbedError
from wiresum.plan.aggregation_plan import AggregationPlan
from wiresum.plan.choices import DEFAULT_MTU_BYTES
from wiresum.plan.job import Job
from wiresum.plan.options import PlanOptions
from wiresum.planners import plan
from wiresum.predict import Prediction, predict, predict_tree
from wiresum.testbed import Testbed, run_or_fail
from wiresum.testbed.shaping import BURST_BYTES, QUEUE_BYTES
from wiresum.topology.model import Node, Topology

FLOAT32_BYTES = 4
UNHINDERED = "20gbit"
"""More than these machines carry."""
QUANTUM_BYTES = 60_000
"""Bytes of a class of traffic at each turn: the most that htb takes without a warning."""
TC_TIMEOUT_S = 10.0

TCP_HEADER_BYTES = 32
"""With time stamps, which Linux sends by default."""


@dataclass(frozen=True)
class Measured:
    """A method's all-reduces.

    Attributes:
        seconds: of each.
        deviation: largest one from Gloo's sums.
        bound_s: of the fluid, with headers.
        rates: by worker, bit/s over seconds of the last all-reduce, if asked for.
    """

    seconds: list[float]
    deviation: float
    bound_s: float
    rates: dict[str, list[tuple[float, float]]]


@dataclass(frozen=True)
class Method:
    """A way to sum.

    Attributes:
        title: for people.
        topology: the links, and who sums whose gradients.
        lockstep: whether the slowest worker clocks all.
        measure: runs it live.
    """

    title: str
    topology: Callable[[Topology], Topology]
    lockstep: bool
    measure: Callable[[Options], Measured]


def measure(options: Options, progress: Callable[[str], None] = lambda _method: None) -> Report:
    """Runs every method on the same links, one after the other.

    Raises:
        PlanError: a method that does not exist.
        TestbedError: the links cannot be made, or a worker failed.
    """
    unknown = next((name for name in options.methods if name not in METHODS), None)
    if unknown:
        raise PlanError(f"there is no method {unknown}; choose from {', '.join(METHODS)}")
    results, ratios = [], []
    for name in options.methods or METHODS:
        method = METHODS[name]
        progress(method.title)
        result = to_result(name, options, method.measure(options))
        results.append(result)
        ratios += [Ratio(f"{name} / theory without headers", result.median / result.extra["theory_s"])]
        ratios += [Ratio(f"{name} / bound with headers", result.median / result.extra["bound_s"])]
    parameters = {
        "rate_bps": options.rate_bps,
        "slow_rate_bps": options.slow_rate_bps,
        "late_s": options.late_s,
        "size_bytes": options.size_bytes,
        "both_ways": options.both_ways,
        "engine": options.engine,
        "codec": options.codec,
    }
    return Report("heterogeneity", parameters, results, ratios, notes=notes(options))


def to_result(name: str, options: Options, measured: Measured) -> Result:
    """Seconds beside theory and bound, and rates over time if they were asked for."""
    method = METHODS[name]
    extra: dict[str, Any] = {
        "theory_s": in_theory(method, options),
        "bound_s": measured.bound_s,
        "largest_deviation_from_gloo": measured.deviation,
    }
    if options.rates:
        extra |= {"predicted_bps": predicted_rates(method, options), "measured_bps": measured.rates}
    return Result(name, "s", measured.seconds, extra)


def predicted_rates(method: Method, options: Options) -> dict[str, list[tuple[float, float, float]]]:
    """By worker, from when to when it sends at which rate, in s and bit/s."""
    workers = {worker.name for worker in options.topology.workers}
    return {
        one.flow.source: [(span.begin_seconds, span.end_seconds, span.rate_bps) for span in one.spans]
        for one in fluid(method, options, options.size_bytes).flows
        if one.flow.source in workers
    }


def notes(options: Options) -> list[str]:
    """How to read the figures."""
    way = (
        "both directions of each link are limited"
        if options.both_ways
        else "results return unhindered, as in the paper"
    )
    lines = [f"{METHODS[name].title}: {name}" for name in options.methods or METHODS]
    if "pool" in (options.methods or METHODS):
        lines.append("pool may be below its bound, a fluid, by the window that workers send before the last one comes")
    return [*lines, f"time from the first worker's start until the last one has the sum; {way}"]


def in_theory(method: Method, options: Options) -> float:
    """Seconds of a fluid without headers: what the paper computes."""
    return fluid(method, options, options.size_bytes).seconds


def fluid(method: Method, options: Options, wire_bytes: float) -> Prediction:
    """So many bytes from each worker, through the tree that the method's topology names."""
    topology = method.topology(options.topology)
    return predict_tree(
        topology,
        {node.name: node.sums_at for node in topology.nodes if node.kind == "worker" or node.sums},
        wire_bytes,
        starts=options.starts,
        upload_only=not options.both_ways,
        policy="pool" if method.lockstep else "cache",
    )


def _planned(options: Options, topology: Topology, job: Job) -> Measured:
    """Runs the topology's own tree through the product."""
    made = plan(topology, job, PlanOptions(engine=options.engine))
    if not options.both_ways:
        made = _without_negotiation(made)
    bound_s = predict(topology, made, options.size_bytes, options.starts, upload_only=not options.both_ways).seconds
    with Testbed(topology, made) as bed:
        if not options.both_ways:
            _let_results_pass(bed, options.rate_bps)
        output = Path(bed.folder) / "late.json"
        starts = [options.starts.get(name, 0.0) for name in bed.workers]
        elements = [options.size_bytes // FLOAT32_BYTES]
        task = late.Task("wiresum", elements, starts, options.repeats, str(output))
        with _sending(bed, options) as rates:
            run_or_fail(bed, task.command(), "the benchmark")
        [outcome] = late.read(output)
    sent = rates.since(outcome.begins[-1], outcome.seconds[-1]) if rates else {}
    return Measured(outcome.seconds, outcome.deviation, bound_s, sent)


def _without_negotiation(made: AggregationPlan) -> AggregationPlan:
    """Negotiated rates leave room for results, which here have links of their own."""
    nodes = [node.model_copy(update={"ingress_bps": None, "egress_bps": None}) for node in made.nodes]
    return made.model_copy(update={"nodes": nodes})


def _sending(bed: Testbed, options: Options) -> AbstractContextManager[SendingRates | None]:
    """Records the rates of all workers, if that is asked for and possible; servers also send results."""
    hosts = [worker.name for worker in bed.topology.workers]
    return nullcontext() if bed.why_loopback or not options.rates else SendingRates(bed, hosts)


def _let_results_pass(bed: Testbed, rate_bps: float) -> None:
    """Limits what reaches S1 to gradients: results come through the same link, and the paper does not count them.

    The switch's port towards S1 gets two classes in place of its one limit: what workers send, and everything else.
    """
    if bed.why_loopback or "S1" not in {node.name for node in bed.topology.nodes}:
        return
    number = [link.id for link in bed.topology.links_of("fabric")].index("S1")
    device = f"dev {bed.network.interfaces('fabric')[number]}"
    gradients = f"rate {round(rate_bps)}bit burst {BURST_BYTES} cburst {BURST_BYTES} quantum {QUANTUM_BYTES}"
    lines = [
        f"qdisc replace {device} root handle 2: htb default 1",
        f"class add {device} parent 2: classid 2:1 htb rate {UNHINDERED} burst 1mb cburst 1mb quantum {QUANTUM_BYTES}",
        f"class add {device} parent 2: classid 2:2 htb {gradients}",
        f"qdisc add {device} parent 2:2 bfifo limit {QUEUE_BYTES}",
    ]
    for worker in bed.topology.workers:
        source = f"match ip src {bed.address(worker.name)}/32"
        lines.append(f"filter add {device} parent 2: protocol ip u32 {source} flowid 2:2")
    done = bed.spawn("fabric", ["tc", "-batch", "-"], stdin=subprocess.PIPE)
    done.communicate("\n".join(lines).encode(), timeout=TC_TIMEOUT_S)
    if done.returncode:
        raise TestbedError("tc refuses to tell gradients from results at S1's link; its message is above")


def _xagg(options: Options) -> Measured:
    job = Job(policy="cache", codec=options.codec, gradient_bytes=options.size_bytes)
    return _planned(options, options.topology, job)


def _pool(options: Options) -> Measured:
    return _planned(options, _summed_by_the_switch(options.topology), Job(policy="pool", codec=options.codec))


def _ps(options: Options) -> Measured:
    """Over TCP. On the way up only, the time at which the server has summed everything is what counts."""
    method = METHODS["ps"]
    with Testbed(method.topology(options.topology), None) as bed:
        delays_s = [options.starts.get(name, 0.0) for name in bed.workers]
        with _sending(bed, options) as rates:
            runs = BASELINES["ps"].run(bed, options.size_bytes // FLOAT32_BYTES, options.repeats, delays_s)
    seconds = [run.seconds if options.both_ways else run.summed_seconds for run in runs]
    bound_s = fluid(method, options, options.size_bytes * tcp_overhead(DEFAULT_MTU_BYTES)).seconds
    deviation = max(run.largest_deviation for run in runs)
    return Measured(seconds, deviation, bound_s, rates.since(runs[-1].began, seconds[-1]) if rates else {})


def tcp_overhead(mtu_bytes: int) -> float:
    """Bytes on a link for each byte in full TCP segments, counted as Linux does.

    Example:
        >>> round(tcp_overhead(1500), 3)
        1.046
    """
    return (wire.ETHERNET_LEN + mtu_bytes) / (mtu_bytes - wire.IPV4_LEN - TCP_HEADER_BYTES)


def _summed_at_one_server(topology: Topology) -> Topology:
    """The same links, with the parameter server alone."""
    nodes = [
        node.model_copy(update={"sums_at": "PS"}) if node.kind == "worker" else node
        for node in topology.nodes
        if node.kind != "aggregator"
    ]
    return _between(topology, nodes)


def _summed_by_the_switch(topology: Topology) -> Topology:
    """The same links, with a switch that sums and no servers."""

    def changed(node: Node) -> Node:
        if node.kind == "switch":
            return node.model_copy(update={"aggregation_rate_bps": topology.node("PS").aggregation_rate_bps})
        return node.model_copy(update={"sums_at": "fabric"})

    return _between(topology, [changed(node) for node in topology.nodes if node.kind in {"worker", "switch"}])


def _between(topology: Topology, nodes: list[Node]) -> Topology:
    """These nodes, and the links among them."""
    names = {node.name for node in nodes}
    links = [link for link in topology.links if {link.source, link.target} <= names]
    return Topology(name=topology.name, nodes=nodes, links=links)


def _unchanged(topology: Topology) -> Topology:
    return topology


METHODS: dict[str, Method] = {
    "ps": Method("a parameter server over TCP, without sums in the network", _summed_at_one_server, False, _ps),
    "pool": Method(
        "few slots at the switch, so that the slowest clocks all (SwitchML)", _summed_by_the_switch, True, _pool
    ),
    "xagg": Method("servers that hold the whole gradient (XAgg)", _unchanged, False, _xagg),
}
"""By the name that a command line takes; each is one line here."""
