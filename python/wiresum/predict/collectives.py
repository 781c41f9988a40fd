"""What crosses links for each collective, where a star sums and copies: predictions, and the benchmark's wire limit."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from wiresum import wire
from wiresum.errors import PlanError
from wiresum.plan.aggregation_plan import AggregationPlan
from wiresum.plan.choices import FLOAT32_BYTES, lane_bytes
from wiresum.plan.placement import parents_of
from wiresum.plan.ways import links_of
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
        return _TRAFFIC[collective](self, is_root)

    def _all_reduce(self, _is_root: bool) -> Traffic:
        return self._sums(1, 1) + self._preamble(self._sum_bytes)

    def _reduce(self, is_root: bool) -> Traffic:
        around = self._preamble(self._sum_bytes) + self._barriers(self._sum_bytes)
        return self._sums(0, 1) + around if is_root else self._sums(1, 0) + around

    def _reduce_scatter(self, _is_root: bool) -> Traffic:
        around = self._preamble(self._sum_bytes) + self._barriers(self._sum_bytes)
        return self._sums(1 - self._own, self._own) + around

    def _all_gather(self, _is_root: bool) -> Traffic:
        return self._copies(self._own, 1 - self._own) + self._preamble() + self._barriers(self._copy_bytes)

    def _broadcast(self, is_root: bool) -> Traffic:
        around = self._preamble() + self._barriers(self._copy_bytes)
        return self._copies(1, 0) + around if is_root else self._copies(0, 1) + around

    def _pair(self, is_root: bool) -> Traffic:
        return self._reduce_scatter(is_root) + self._all_gather(is_root)

    @property
    def _own(self) -> float:
        """The fraction that is a worker's own."""
        return 1 / self.workers

    @property
    def _sum_bytes(self) -> int:
        return self.elements * self.lane_bytes

    @property
    def _copy_bytes(self) -> int:
        return self.elements * self.element_bytes

    def _sums(self, up: float, down: float) -> Traffic:
        """These fractions of all sums."""
        whole = self._sum_bytes + self._packets(self._sum_bytes) * self.header_bytes
        return Traffic(up * whole, down * whole)

    def _copies(self, up: float, down: float) -> Traffic:
        """These fractions of all copies."""
        whole = self._copy_bytes + self._packets(self._copy_bytes) * self.header_bytes
        return Traffic(up * whole, down * whole)

    def _preamble(self, summed_bytes: int = 0) -> Traffic:
        """Shapes, and the exponents of what is summed; the same both ways."""
        lanes = SHAPE_LANES * self.workers + self._packets(summed_bytes)
        count = self._packets(lanes * EXPONENT_BYTES) * (self.payload_bytes + self.header_bytes)
        return Traffic(count, count)

    def _barriers(self, content_bytes: int) -> Traffic:
        count = math.ceil(self._packets(content_bytes) / BARRIER_POSITIONS) * (wire.BLOCK_LEN + self.header_bytes)
        return Traffic(count, count)

    def _packets(self, content_bytes: int) -> int:
        return math.ceil(content_bytes / self.payload_bytes)


_TRAFFIC: dict[str, Callable[[Shape, bool], Traffic]] = {
    "all_reduce": Shape._all_reduce,
    "reduce_scatter": Shape._reduce_scatter,
    "all_gather": Shape._all_gather,
    "pair": Shape._pair,
    "broadcast": Shape._broadcast,
    "reduce": Shape._reduce,
}
SUMS = ("all_reduce", "reduce_scatter", "reduce")
"""Without copies in the plan, all of these are an all-reduce on the wire."""


def predict_collective(
    topology: Topology, plan: AggregationPlan, bytes: int, collective: str, element_bytes: int = FLOAT32_BYTES
) -> Prediction:
    """Predicts a collective of a plan; the root of a broadcast or reduce is rank 0.

    Args:
        topology: where the plan's nodes and workers are, by name.
        plan: who sums what.
        bytes: of the unsharded tensor; headers are added.
        collective: a name of `wiresum.plan.choices.COLLECTIVES`.
        element_bytes: of an element of the tensor.

    Raises:
        PlanError: the plan does not carry it, or as for `predict`.
    """
    as_float32 = plan.job.as_float32(bytes, element_bytes)
    if is_all_reduce(plan, collective):
        return predict(topology, plan, as_float32)
    schedule = _shares(topology, plan, as_float32, shape_of(plan, bytes, element_bytes), collective)
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


def exchange_star(plan: AggregationPlan, bytes: int) -> PredictedStream:
    """Where workers that do not all give and take meet, also where all-reduces go up trees or to several servers.

    Args:
        plan: one with copies.
        bytes: of float32. The stream is as if an all-reduce of them took it.
    """
    carrier = next(stream for stream in plan.streams if stream.is_exchange)
    dense = streams(plan, bytes)
    return dense[0]._replace(
        parents=parents_of(plan, carrier),
        wire_bytes=sum(stream.wire_bytes for stream in dense),
        links=links_of(plan, carrier),
    )


def worker_loads(plan: AggregationPlan, shape: Shape, collective: str) -> dict[str, tuple[float, float]]:
    """Bytes of each worker, up and down, of a collective whose root is rank 0."""
    traffic = {worker.name: shape.of_worker(collective, is_root=worker.rank == 0) for worker in plan.workers}
    return {name: (one.up, one.down) for name, one in traffic.items()}


def shape_of(plan: AggregationPlan, bytes: int, element_bytes: int = FLOAT32_BYTES) -> Shape:
    """A tensor as a plan's packets carry it."""
    job, lane = plan.job, lane_bytes(plan.job.lanes, element_bytes)
    elements = bytes // element_bytes
    return Shape(elements, element_bytes, len(plan.workers), job.payload_bytes, lane, header_bytes(plan))


def _shares(topology: Topology, plan: AggregationPlan, bytes: int, shape: Shape, collective: str) -> Schedule:
    """The flows of a collective in which workers do not all send and take everything."""
    schedule, star = Schedule(RoutedTopology(topology)), exchange_star(plan, bytes)
    loads = worker_loads(plan, shape, collective)
    schedule.add_shares(star.parents, loads, stream=star.name, adding_factor=star.wire_bytes / bytes)
    return schedule
