"""The engine that carries collectives through the network, as the backend sees it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from wiresum import native
from wiresum.errors import JoinError
from wiresum.plan.aggregation_plan import AggregationPlan
from wiresum.plan.choices import Transport


class Engine(Protocol):
    """A worker that has joined its job."""

    @property
    def transport(self) -> str:
        """What packets travel by, and why, for people."""

    def abi(self) -> object:
        """The capsule of `csrc/engine_abi.h`; valid as long as the engine."""

    def await_children(self, k: int) -> None:
        """How many of its aggregator's children this rank waits for, where rounds go on without late workers."""

    def gone(self) -> str | None:
        """What collectives wait for in vain: an aggregator that is gone, in words; None while there is none."""

    def lost(self) -> tuple[int, str] | None:
        """The rank of another worker that is lost, and what has become of it; None while there is none."""

    def stop(self, why: str, elsewhere: bool = False) -> None:
        """Ends the job: open collectives and later ones fail, and this is why.

        Args:
            why: for people.
            elsewhere: whether every rank is told alike that others than the network have to sum.
        """

    def statistics(self) -> Mapping[str, Any]:
        """Counters by name."""

    def close(self) -> None:
        """Leaves the job. Open collectives fail first; harmless when repeated."""


def open_engine(
    plan: AggregationPlan,
    rank: int,
    incarnation: int,
    timeout_s: float,
    transport: Transport = "auto",
    *,
    dead_after_s: float = 0.0,
    gone_after_s: float = 0.0,
    absent: Sequence[int] = (),
    outlives_workers: bool = False,
    members: Sequence[int] | None = None,
) -> Engine:
    """Joins the job of a plan.

    Args:
        plan: where to sum.
        rank: this worker's number in the plan.
        incarnation: microseconds since the epoch, equal on all ranks, larger than in any earlier life of the job.
        timeout_s: how long to wait for the aggregators.
        transport: what packets travel by.
        dead_after_s: seconds without a heartbeat after which the aggregators take this rank for dead; 0 for never.
        gone_after_s: seconds of an aggregator's silence after which `Engine.gone` names it; 0 for never.
        absent: ranks that this incarnation goes on without, as all others say, too.
        outlives_workers: a worker that is lost ends no collective, and `Engine.lost` names it.
        members: numbers in the plan of those who join, by rank; absent for all workers in their order.

    Raises:
        JoinError: no aggregator answered, or one refused.
        PlanError: the plan is not one that the engine can honour.
    """
    try:
        from wiresum._native import Engine as NativeEngine
    except ImportError as error:
        raise JoinError(native.why_missing(error)) from error
    return NativeEngine(
        plan.to_json(), rank, incarnation, timeout_s,
        transport=transport, dead_after_s=dead_after_s, gone_after_s=gone_after_s, absent=list(absent),
        outlives_workers=outlives_workers, members=None if members is None else list(members),
    )  # fmt: skip
