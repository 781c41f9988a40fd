"""`wiresum bench aggregator --engines …`: what a packet costs each engine on a core, live, over a veth pair.

Method. One generator is every child of a star; the aggregator sums, and sends each child its result, so one packet
leaves for each that comes. *Rate*: a window of packets keeps the aggregator busy without loss; contributions divided by
the CPU time of the threads that receive and sum are packets per second of one core, even where the generator is the
slower one. XDP and AF_XDP are measured twice: on socket buffers, of which a veth makes frames on the measured core, and
on frames, which a network card's driver would hand them (`aggregator_relay`). UDP and TCP get socket buffers,
ready-made and with checksums that nobody computes, on which a driver would spend time. *Load*: the generator sends at a
pace, whatever comes back; CPU use, loss and round trips follow. (XAgg, Figs. 6, 7, 9, 10 and 11, compare the same
engines.)
"""

from __future__ import annotations

import contextlib
import statistics
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_args

from wiresum import wire
from wiresum.bench.aggregator.command import Options
from wiresum.bench.aggregator.network import LOAD_ADDRESS, NODE_ADDRESS, Feed, TwoHosts
from wiresum.bench.result import Ratio, Report, Result
from wiresum.errors import SupportError
from wiresum.plan.aggregation_plan import FORMAT, AggregationPlan
from wiresum.plan.choices import Engine

PORT = 5747
SLOTS = 1024
"""So many that a paced load, which does not wait for results, is long past a slot when it comes back to it."""
IN_FLIGHT = 240
"""Packets of all children in flight: less than the 256 that a veth interface queues."""
RATE_UNIT = "packets/s of one core"
LOAD_UNIT = "% of a core"
PERCENTILE = 99
FRAME_ENGINES = {"xdp", "af_xdp"}
"""Those that take frames from a driver."""


@dataclass
class Case:
    """One engine under one load, and what its runs gave."""

    engine: str
    values: int
    rate: float | None = None
    feed: Feed = "skb"
    runs: list[dict[str, Any]] = field(default_factory=list)

    @property
    def name(self) -> str:
        """For people."""
        load = "" if self.rate is None else f", {self.rate:,.0f} packets/s offered"
        fed = " on frames" if self.feed == "frames" else ""
        return f"{self.engine}{fed}, {self.values} values{load}"


def measure(options: Options, progress: Callable[[str], None] = lambda line: None) -> Report:
    """Sets up two hosts, measures every case turn by turn, and takes them down.

    Args:
        options: what to measure.
        progress: told of each case before its run.

    Raises:
        SupportError: a tool, a core or a privilege is missing, or no engine is left.
        TestbedError: the aggregator or the generator failed.
    """
    engines = [engine for engine in options.engines if engine in get_args(Engine)]
    notes = [
        f"{engine} is left out: this build has no such engine" for engine in options.engines if engine not in engines
    ]
    if not engines:
        raise SupportError(f"no engine to measure; choose from {', '.join(get_args(Engine))}")
    cases = [
        Case(engine, values, feed=feed) for values in options.values for engine in engines for feed in feeds(engine)
    ]
    loads = [Case(engine, options.load_values, rate) for rate in options.rates for engine in engines]
    window = IN_FLIGHT // options.children
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        needed = {case.feed for case in [*cases, *loads]} | {"skb"}
        hosts = {
            feed: stack.enter_context(TwoHosts(options.offloads, feed)) for feed in get_args(Feed) if feed in needed
        }
        direct_us = hosts["skb"].direct_round_trip_us(4 * options.load_values + wire.HEADER_LEN)
        for turn in range(options.runs):
            for case in [*cases, *loads]:
                progress(f"run {turn + 1} of {options.runs}: {case.name}")
                task = {"window": window, "rate": case.rate, "seconds": options.seconds}
                plan = star(case.engine, case.values, options.children)
                case.runs.append(hosts[case.feed].measure(plan, Path(folder), task))
    notes.append(
        f"direct round trip, an echo between the two kernels: {direct_us:.1f} µs; subtracted in added_latency_us"
    )
    results = [*(rate_result(case) for case in cases), *(load_result(case, direct_us) for case in loads)]
    parameters = {
        "children": options.children,
        "seconds": options.seconds,
        "runs": options.runs,
        "window": window,
        "offloads": options.offloads,
        "network": "veth, the aggregator and the generator on a core each",
    }
    return Report("aggregator engines", parameters, results, ratios(results), notes=notes)


def feeds(engine: str) -> tuple[Feed, ...]:
    """What an engine's rate is measured on."""
    return ("skb", "frames") if engine in FRAME_ENGINES else ("skb",)


def star(engine: str, values: int, children: int) -> AggregationPlan:
    """A node and its children, all of which are the generator's host."""
    tree = {
        "places": [{"node": 0, "slots": SLOTS}],
        "legs": [{"child": {"worker": rank}, "parent": 0} for rank in range(children)],
    }

    def stream(index: int, role: str) -> dict[str, Any]:
        sizes = {"policy": "pool", "window": IN_FLIGHT // children}
        return {"id": index, "name": role, "role": role, "share": float(role == "values"), **sizes, **tree}

    return AggregationPlan.model_validate(
        {
            "format": FORMAT,
            "planner": "bench",
            "job": {"id": 1, "secret": f"{1:064x}", "values_per_packet": values},
            "nodes": [{"id": 0, "name": "node", "address": f"{NODE_ADDRESS}:{PORT}", "engine": engine}],
            "workers": [{"rank": rank, "name": f"w{rank}", "address": LOAD_ADDRESS} for rank in range(children)],
            "streams": [stream(0, "exponents"), stream(1, "values")],
        }
    )


def summed(run: dict[str, Any]) -> int:
    """Contributions that the aggregator has taken into a sum."""
    verdicts = run["counters"]["verdicts"]
    return sum(int(verdicts[verdict]) for verdict in ("first", "added", "completed"))


def rate_result(case: Case) -> Result:
    """Packets per second of one core, with the rate that was reached and the time that a packet takes."""
    runs = [summed(run) / run["cpu_s"] for run in case.runs]
    return Result(
        case.name,
        RATE_UNIT,
        runs,
        {
            "kind": "rate",
            "engine": case.engine,
            "feed": case.feed,
            "values": case.values,
            "nanoseconds": 1e9 / statistics.median(runs),
            "reached_packets_per_s": statistics.median(summed(run) / run["seconds"] for run in case.runs),
            "core_busy": statistics.median(run["cpu_s"] / run["seconds"] for run in case.runs),
        },
    )


def load_result(case: Case, direct_us: float) -> Result:
    """CPU use at a pace, with loss and latency."""
    trips = [sorted(run["round_trips_us"]) for run in case.runs if run["round_trips_us"]]
    medians = [statistics.median(trip) for trip in trips]
    tails = [trip[len(trip) * PERCENTILE // 100] for trip in trips]
    return Result(
        case.name,
        LOAD_UNIT,
        [100 * run["cpu_s"] / run["seconds"] for run in case.runs],
        {
            "kind": "load",
            "engine": case.engine,
            "values": case.values,
            "offered_packets_per_s": case.rate,
            "sent_packets_per_s": statistics.median(run["contributions"] / run["seconds"] for run in case.runs),
            "loss": statistics.median(loss(run) for run in case.runs),
            "round_trip_us": statistics.median(medians) if medians else None,
            f"round_trip_p{PERCENTILE}_us": statistics.median(tails) if tails else None,
            "added_latency_us": statistics.median(medians) - direct_us if medians else None,
        },
    )


def loss(run: dict[str, Any]) -> float:
    """Share of contributions without a result; each child is owed one for each that it has sent."""
    return 1 - float(run["results"]) / max(1, int(run["contributions"]))


def ratios(results: list[Result]) -> list[Ratio]:
    """XDP's rate, on socket buffers and on frames, over each other engine's, for each packet size."""
    rates = [result for result in results if result.extra["kind"] == "rate"]

    def pairs() -> Iterator[tuple[Result, Result]]:
        for xdp in (rate for rate in rates if rate.extra["engine"] == "xdp"):
            for other in rates:
                if other.extra["engine"] != "xdp" and are_comparable(xdp, other):
                    yield xdp, other

    return [Ratio(f"{xdp.name} / {other.name}", xdp.median / other.median) for xdp, other in pairs()]


def are_comparable(one: Result, other: Result) -> bool:
    """Packets of equal size, and the same feed, where the other engine has a choice."""
    has_choice = other.extra["engine"] in FRAME_ENGINES
    return one.extra["values"] == other.extra["values"] and (not has_choice or one.extra["feed"] == other.extra["feed"])
