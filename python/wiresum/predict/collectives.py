"""What crosses links for each collective, where stars sum and copy: predictions, and the benchmark's wire limit."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from wiresum import wire
from wiresum.errors import PlanError
from wiresum.plan.aggregation_plan import AggregationPlan
from wiresum.plan.choices import FLOAT32_BYTES, lane_bytes
from wiresum.plan.exchanges import carriers
from wiresum.plan.placement import parents_of
from wiresum.plan.stream import PlanStream
from wiresum.plan.ways import NamedWays, links_of
from wiresum.predict import PredictedStream, predict, streams
from wiresum.predict.fluid import simulate
from wiresum.predict.framing import header_bytes
from wiresum.predict.prediction import Prediction
from wiresum.predict.schedule import Schedule
from wiresum.topology.model import Topology
from wiresum.topology.paths import RoutedTopology

HEADER_BYTES = wire.ETHERNET_LEN + wire.IPV4_LEN + wire.UDP_LEN + wire.HEADER_LEN
BARRIER_POSITIONS = 64
"""Positions that one barrier is about."""
SHAPE_LANES = 3
"""What each rank says of its tensor in a preamble."""
EXPONENT_BYTES = 4
"""What a fragment of sums takes in a preamble, and a lane there."""
BITS = 8


@dataclass(frozen=True)
class Traffic:
    """Bytes on a worker's link, in each direction."""

    up: float
    down: float

    def __add__(self, other: Traffic) -> Traffic:
        return Traffic(self.up + other.up, self.down + other.down)

    def seconds(self, rate_bps: float) -> float:
        """Time on a link of this rate, both directions of which are used at once."""
        return max(self.up, self.down) * BITS / rate_bps


@dataclass(frozen=True)
class Shape:
    """A collective's tensor, and how it travels.

    Attributes:
        elements: of the unsharded tensor.
        element_bytes: of one of them.
        workers: ranks.
        payload_bytes: of a full packet.
        lane_bytes: of an element that is summed, on its way.
        header_bytes: of a packet, all headers.
    """

    elements: int
    element_bytes: int
    workers: int
    payload_bytes: int
    lane_bytes: int = EXPONENT_BYTES
    header_bytes: int = HEADER_BYTES

    def traffic(self, collective: str) -> Traffic:
        """What crosses the busiest worker's link for it, each direction by itself."""
        root, other = (self.of_worker(collective, is_root=is_root) for is_root in (True, False))
        return Traffic(max(root.up, other.up), max(root.down, other.down))

    def of_worker(self, collective: str, *, is_root: bool) -> Traffic:
        """What crosses a worker's link: values or copies, exponents, barriers, with all headers; own parts stay."""
        whole = Traffic(0, 0)
        for part in PARTS.get(collective, (collective,)):
            whole += self.agreement(part) + self.carried(part, is_root=is_root)
        return whole

    def agreement(self, collective: str) -> Traffic:
        """What ranks agree by on a collective that is not of several: shapes, and the exponents of what is summed."""
        return self._preamble(self._sum_bytes if collective in SUMS else 0)

    def carried(self, collective: str, *, is_root: bool) -> Traffic:
        """What crosses a worker's link beside that: values or copies, and barriers."""
        own = 1 / self.workers
        up, down = {
            "all_reduce": (1.0, 1.0),
            "reduce": (0.0, 1.0) if is_root else (1.0, 0.0),
            "reduce_scatter": (1 - own, own),
            "all_gather": (own, 1 - own),
            "broadcast": (1.0, 0.0) if is_root else (0.0, 1.0),
            "gather": (0.0, 1 - own) if is_root else (own, 0.0),
            "scatter": (1 - own, 0.0) if is_root else (0.0, own),
        }[collective]
        content = self._sum_bytes if collective in SUMS else self._copy_bytes
        whole = content + self._packets(content) * self.header_bytes
        moved = content * (1 - own) if collective in OF_OTHERS else content
        barriers = Traffic(0, 0) if collective == "all_reduce" else self._barriers(moved)
        return Traffic(up * whole, down * whole) + barriers

    def of_share(self, share: float) -> Shape:
        """What a stream carries of it that has this share."""
        return replace(self, elements=round(share * self.elements))

    @property
    def _sum_bytes(self) -> int:
        return self.elements * self.lane_bytes

    @property
    def _copy_bytes(self) -> int:
        return self.elements * self.element_bytes

    def _preamble(self, summed_bytes: int) -> Traffic:
        """The same both ways."""
        lanes = SHAPE_LANES * self.workers + self._packets(summed_bytes)
        count = self._packets(lanes * EXPONENT_BYTES) * (self.payload_bytes + self.header_bytes)
        return Traffic(count, count)

    def _barriers(self, content_bytes: float) -> Traffic:
        count = math.ceil(self._packets(content_bytes) / BARRIER_POSITIONS) * (wire.BLOCK_LEN + self.header_bytes)
        return Traffic(count, count)

    def _packets(self, content_bytes: float) -> int:
        return math.ceil(content_bytes / self.payload_bytes)


SUMS = ("all_reduce", "reduce_scatter", "reduce")
"""Without copies in the plan, all of these are an all-reduce on the wire."""
OF_OTHERS = ("gather", "scatter")
"""What the root has of its own tensor already has no positions in these."""
PARTS = {"pair": ("reduce_scatter", "all_gather")}
"""Collectives of those that are several at once."""


class Exchange(NamedTuple):
    """Flows of a collective in one stream: none is fed by another, and each worker has its own bytes.

    Attributes:
        stream: its tree, with the bytes of the busiest worker.
        loads: bytes of each worker, up and down; empty where every edge carries all, both ways.
    """

    stream: PredictedStream
    loads: Mapping[str, tuple[float, float]]


def predict_collective(
    topology: Topology, plan: AggregationPlan, bytes: int, collective: str, element_bytes: int = FLOAT32_BYTES
) -> Prediction:
    """Predicts a collective of a plan; the root, where there is one, is rank 0.

    Args:
        topology: where the plan's nodes and workers are, by name.
        plan: who sums what.
        bytes: of the unsharded tensor; headers are added.
        collective: a name of `wiresum.plan.choices.COLLECTIVES`.
        element_bytes: of an element of the tensor.

    Raises:
        PlanError: the plan does not carry it, or as for `predict`.
    """
    if is_all_reduce(plan, collective):
        return predict(topology, plan, plan.job.as_float32(bytes, element_bytes))
    schedule = flows_of_collective(topology, plan, bytes, collective, element_bytes)
    return Prediction.of(schedule.flows, simulate(schedule.flows, schedule.capacities), schedule.capacities)


def is_all_reduce(plan: AggregationPlan, collective: str) -> bool:
    """Whether a collective is an all-reduce on the wire.

    Raises:
        PlanError: the plan does not carry it.
    """
    has_copies = any(stream.is_exchange for stream in plan.streams)
    if collective not in SUMS and not has_copies:
        raise PlanError(
            f"{collective} goes through Gloo, as the plan has no copies: make one with `wiresum plan --copies`, or "
            f"choose one of {', '.join(SUMS)}"
        )
    return collective == "all_reduce" or not has_copies


def exchanges(plan: AggregationPlan, shape: Shape, collective: str) -> Iterator[Exchange]:
    """Where workers that do not all give and take meet, also where all-reduces go up trees; the root is rank 0.

    The first is the agreement, which goes where that of all-reduces does.

    Args:
        plan: one with copies.
        shape: of the tensor.
        collective: one that is no all-reduce.
    """
    parts = PARTS.get(collective, (collective,))
    agreement = next(stream for stream in plan.streams if stream.role == "exponents")
    bytes = sum(shape.agreement(part).up for part in parts)
    yield Exchange(_predicted(plan, agreement, bytes, lockstep=True), {})
    for part in parts:
        for stream, share in carriers(plan, "parts" if part in SUMS else "copies"):
            shared = shape.of_share(share)
            traffic = {w.name: shared.carried(part, is_root=w.rank == 0) for w in plan.workers}
            loads = {name: (one.up, one.down) for name, one in traffic.items()}
            most = max(max(load) for load in loads.values())
            yield Exchange(_predicted(plan, stream, most, lockstep=False), loads)


def _predicted(plan: AggregationPlan, stream: PlanStream, bytes: float, *, lockstep: bool) -> PredictedStream:
    return PredictedStream(stream.name, parents_of(plan, stream), lockstep, bytes, links_of(plan, stream))


def flows_of_collective(
    topology: Topology, plan: AggregationPlan, bytes: int, collective: str, element_bytes: int = FLOAT32_BYTES
) -> Schedule:
    """The flows of a collective that is no all-reduce, with the capacities that they share.

    Arguments and errors as for `predict_collective`.
    """
    as_float32 = plan.job.as_float32(bytes, element_bytes)
    factor = sum(stream.wire_bytes for stream in streams(plan, as_float32)) / as_float32
    schedule, ways = Schedule(RoutedTopology(topology)), NamedWays(topology)
    for stream, loads in exchanges(plan, shape_of(plan, bytes, element_bytes), collective):
        routes = ways.routes(stream.links)
        if loads:
            schedule.add_shares(stream.parents, loads, stream=stream.name, adding_factor=factor, routes=routes)
            continue
        schedule.add_tree(
            stream.parents, stream.wire_bytes, starts={}, stream=stream.name, lockstep=stream.lockstep,
            adding_factor=factor, routes=routes,
        )  # fmt: skip
    return schedule


def shape_of(plan: AggregationPlan, bytes: int, element_bytes: int = FLOAT32_BYTES) -> Shape:
    """A tensor as a plan's packets carry it."""
    job, lane = plan.job, lane_bytes(plan.job.lanes, element_bytes)
    elements = bytes // element_bytes
    return Shape(elements, element_bytes, len(plan.workers), job.payload_bytes, lane, header_bytes(plan))
