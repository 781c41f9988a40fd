"""What hosts cost: a profile of one machine, measured by `wiresum bench line --profile`, and what it says of a plan.

The model is linear: a packet costs so much, and a byte in it so much more. Two sizes of packets, measured on links that
do not limit, give both. What it leaves out: caches that are full at one size and not at another, other cores, NICs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Literal

from wiresum.document import Document, FileDocument, Seconds
from wiresum.errors import PlanError, WiresumError
from wiresum.plan.aggregation_plan import LANE_BYTES, AggregationPlan
from wiresum.plan.choices import Engine, Transport
from wiresum.predict.framing import wire_bytes
from wiresum.predict.prediction import Prediction

GIGA = 1e9
BITS = 8
RATES_BPS = (10e9, 25e9, 100e9, 400e9)
"""Links for which the number of cores is stated."""


class Cost(Document):
    """Processor time, for a payload of values.

    Attributes:
        packet_s: seconds for a packet, whatever its size.
        byte_s: seconds for each byte of its values.
    """

    packet_s: Seconds
    byte_s: Seconds

    def seconds(self, packets: float, payload_bytes: float) -> float:
        """For so many packets with so many bytes of values in all."""
        return packets * self.packet_s + payload_bytes * self.byte_s


class HostProfile(FileDocument):
    """What one machine takes for a packet that a worker sends and whose sum it receives.

    Attributes:
        machine: on which it was measured.
        engine: what summed.
        transport: what workers' packets travelled by.
        thread: the engine's thread of a worker, which is on one core.
        worker: the worker's process, the kernel on its behalf included.
        node: all else for one worker's packet: the node that sums, and what the kernel does by itself for both.
    """

    error: ClassVar[type[WiresumError]] = PlanError
    what: ClassVar[str] = "profile"
    command: ClassVar[str] = "bench line"

    format: Literal["wiresum-hosts/1"] = "wiresum-hosts/1"
    machine: str
    engine: Engine
    transport: Transport
    thread: Cost
    worker: Cost
    node: Cost


def fit(costs: Mapping[int, float]) -> Cost:
    """The cost of a packet and of a byte.

    Args:
        costs: processor seconds for 10⁹ bytes of values, by the bytes of values in a packet; two sizes.

    Measured times scatter: a part that comes out below zero is zero, and the other one carries all of the larger size.
    """
    (small, of_small), (large, of_large) = sorted(costs.items())
    packet_s = (of_small - of_large) / (GIGA / small - GIGA / large)
    byte_s = of_large / GIGA - packet_s / large
    if packet_s < 0:
        return Cost(packet_s=0.0, byte_s=of_large / GIGA)
    if byte_s < 0:
        return Cost(packet_s=of_large * large / GIGA, byte_s=0.0)
    return Cost(packet_s=packet_s, byte_s=byte_s)


@dataclass(frozen=True)
class HostLoad:
    """Processors beside links.

    Attributes:
        thread_seconds: of each of the engine's threads for one all-reduce; less it cannot take, however fast links are.
        links_seconds: the prediction without processors, the nodes' adding included.
        limit_bps: rate of a worker's link from which on the threads take longer than the link.
        threads: that a worker needs to keep up, by the rate of its link in bit/s, if each has a core.
        cores: of a worker, and of the node for one worker, by the rate of a worker's link in bit/s, were the work of
            each spread over cores without loss.
    """

    thread_seconds: float
    links_seconds: float
    limit_bps: float
    threads: dict[float, int]
    cores: dict[float, tuple[float, float]]

    @property
    def seconds(self) -> float:
        """The larger of both: packets are encoded while others travel."""
        return max(self.thread_seconds, self.links_seconds)

    @property
    def bottleneck(self) -> str:
        """What takes longer."""
        return "processor" if self.thread_seconds > self.links_seconds else "links"

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        cores = {f"{rate:.0f}": {"worker": one, "node": other} for rate, (one, other) in self.cores.items()}
        threads = {f"{rate:.0f}": count for rate, count in self.threads.items()}
        return {
            **asdict(self),
            "threads": threads,
            "cores": cores,
            "seconds": self.seconds,
            "bottleneck": self.bottleneck,
        }


def host_load(plan: AggregationPlan, gradient_bytes: int, profile: HostProfile, links: Prediction) -> HostLoad:
    """What a profile says of one all-reduce of a plan.

    Args:
        plan: the job's packets and streams.
        gradient_bytes: bytes of float32 in the collective.
        profile: of hosts like those of the plan.
        links: the prediction without processors.
    """
    thread, worker, node = (
        per_bit(cost, plan, gradient_bytes) for cost in (profile.thread, profile.worker, profile.node)
    )
    limit_bps = limit_of_threads(plan, gradient_bytes, profile)
    threads = {rate: max(1, math.ceil(rate * thread)) for rate in RATES_BPS}
    cores = {rate: (rate * worker, rate * node) for rate in RATES_BPS}
    thread_s = _wire_bits(plan, gradient_bytes) / limit_bps
    return HostLoad(thread_s, links.seconds, limit_bps, threads, cores)


def limit_of_threads(plan: AggregationPlan, gradient_bytes: int, profile: HostProfile) -> float:
    """bit/s of a worker's link, each way, that its engine's threads keep up with, if each has a core."""
    seconds = per_bit(profile.thread, plan, gradient_bytes)
    return plan.job.threads / seconds if seconds else math.inf


def per_bit(cost: Cost, plan: AggregationPlan, gradient_bytes: int) -> float:
    """Seconds of a processor for each bit of a worker's packets, on the wire and one way, and for its result."""
    payload = gradient_bytes / LANE_BYTES * plan.job.value_bytes
    packets = math.ceil(payload / plan.job.payload_bytes)
    return cost.seconds(packets, payload) / _wire_bits(plan, gradient_bytes)


def _wire_bits(plan: AggregationPlan, gradient_bytes: int) -> float:
    return BITS * sum(wire_bytes(plan, stream, gradient_bytes) for stream in plan.streams)
