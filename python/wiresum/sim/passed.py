"""What the rounds of a scenario's job pass, as the simulator takes it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from wiresum.plan.aggregation_plan import AggregationPlan
from wiresum.plan.choices import FSDP
from wiresum.predict import PredictedStream, streams
from wiresum.predict.collectives import PARTS, exchanges, is_all_reduce, shape_of
from wiresum.predict.sharded import PASSED, Action, ShardedStep
from wiresum.sim.scenario import ScenarioJob

Loads = Mapping[str, tuple[float, float]]
"""Bytes of each worker's link, up and down."""


@dataclass(frozen=True)
class PassedStream:
    """Flows of one of a job's collectives in one stream.

    Attributes:
        collective: which of them, by index.
        stream: the stream.
        loads: bytes of each worker, where workers send and take different amounts; empty elsewhere.
    """

    collective: int
    stream: PredictedStream
    loads: Loads


@dataclass(frozen=True)
class Passed:
    """What the workers of a job do in each round.

    Attributes:
        collectives: by name.
        bytes: float32 bytes of the unsharded tensor of each.
        actions: what a worker does; it computes and begins all of them at once where this is empty.
        streams: what carries them.
    """

    collectives: Sequence[str]
    bytes: int
    actions: Sequence[Action]
    streams: Sequence[PassedStream]


def passed(job: ScenarioJob, plan: AggregationPlan) -> Passed:
    """What a job's rounds pass by its plan.

    Raises:
        PlanError: the plan does not carry it.
    """
    if is_all_reduce(plan, job.collective):
        found = [PassedStream(0, stream, {}) for stream in streams(plan, job.bytes)]
        return Passed([job.collective], job.bytes, [], found)
    if job.collective == FSDP:
        step = ShardedStep(job.blocks, job.overlap)
        return _exchanged(plan, step.block_bytes(job.bytes), PASSED, step.actions())
    return _exchanged(plan, job.bytes, PARTS.get(job.collective, (job.collective,)), [])


def replaced(found: Passed, others: Sequence[PredictedStream]) -> Passed:
    """With other streams in the place of its own, by order."""
    streams = [replace(one, stream=other) for one, other in zip(found.streams, others, strict=True)]
    return replace(found, streams=streams)


def _exchanged(plan: AggregationPlan, bytes: int, names: Sequence[str], actions: Sequence[Action]) -> Passed:
    return Passed(names, bytes, actions, list(_streams(plan, bytes, names)))


def _streams(plan: AggregationPlan, bytes: int, names: Sequence[str]) -> Iterator[PassedStream]:
    shape = shape_of(plan, bytes)
    for number, name in enumerate(names):
        for one in exchanges(plan, shape, name):
            yield PassedStream(number, one.stream, one.loads)
