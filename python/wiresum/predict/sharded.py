"""A step of a model that FSDP2 has sharded: its collectives, what waits for what, and how long it takes.

The blocks of the model are equal. Forward, each block's parameters are gathered before it computes. Backward, they are
gathered again before it computes, and its gradients are reduced and scattered after that. Backward takes twice as long
as forward: it computes the gradients of what a block takes, and of its parameters.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple

from wiresum.plan.aggregation_plan import AggregationPlan
from wiresum.plan.choices import DEFAULT_BLOCKS, FLOAT32_BYTES, FSDP
from wiresum.predict.collectives import flows_of_collective, is_all_reduce
from wiresum.predict.flow import Flow, Span
from wiresum.predict.fluid import simulate
from wiresum.predict.prediction import Prediction
from wiresum.predict.schedule import Schedule
from wiresum.topology.model import Topology

GATHER, SCATTER, BOTH = "all_gather", "reduce_scatter", "pair"
PASSED = (GATHER, SCATTER)
"""The collectives of a step, by the index that its actions have."""
FORWARD, BACKWARD = 1 / 3, 2 / 3
"""Shares of a step's computing."""
MOST_REDUCE_SCATTERS = 2
"""Under way at once, as after `wiresum.torch.fsdp.overlap`."""

Action = dict[Literal["compute", "begin", "wait"], float]
"""What the simulator has a worker do: `Action` of `crates/sim/src/scenario.rs`."""


@dataclass(frozen=True)
class ShardedStep:
    """How a model is cut, and whether its collectives run ahead.

    Attributes:
        blocks: equal parts of the model, each sharded by itself.
        overlap: whether a block's parameters are gathered while the block before it computes, and its gradients are
            reduced while the backward pass goes on, as after `wiresum.torch.fsdp.overlap`. Otherwise each thing ends
            before the next one begins, as FSDP2 does by itself on a CPU.
    """

    blocks: int = DEFAULT_BLOCKS
    overlap: bool = False

    def block_bytes(self, bytes: int, element_bytes: int = FLOAT32_BYTES) -> int:
        """Bytes of a block of a model of so many: whole elements, rounded up."""
        return math.ceil(bytes / element_bytes / self.blocks) * element_bytes

    def actions(self) -> list[Action]:
        """What each worker does in a step, one after another."""
        return _overlapped(self.blocks) if self.overlap else _one_by_one(self.blocks)

    def phases(self) -> list[str]:
        """The collectives of a step in which nothing is computed: each begins when the one before it has ended."""
        beside = [BOTH] if self.overlap else [GATHER, SCATTER]
        return [GATHER] * (self.blocks + 1) + beside * (self.blocks - 1) + [SCATTER]


@dataclass
class _Course:
    """Actions as they are written down."""

    actions: list[Action] = field(default_factory=list)
    begun: int = 0

    def begin(self, collective: str) -> int:
        """A collective's number in the step."""
        self.actions.append({"begin": PASSED.index(collective)})
        self.begun += 1
        return self.begun - 1

    def wait(self, number: int) -> None:
        """Until this one has ended, and all before it."""
        self.actions.append({"wait": number + 1})

    def block_on(self, collective: str) -> None:
        self.wait(self.begin(collective))

    def compute(self, share: float) -> None:
        self.actions.append({"compute": share})


def _one_by_one(blocks: int) -> list[Action]:
    """Backward FSDP2 gathers a block ahead here too, but waits for that before it computes."""
    course = _Course()
    for _ in range(blocks):
        course.block_on(GATHER)
        course.compute(FORWARD / blocks)
    course.block_on(GATHER)
    for block in range(blocks):
        if block + 1 < blocks:
            course.block_on(GATHER)
        course.compute(BACKWARD / blocks)
        course.block_on(SCATTER)
    return course.actions


def _overlapped(blocks: int) -> list[Action]:
    """A block begins to gather for the one after it when it has its own parameters, forward and backward."""
    course, scattered = _Course(), list[int]()
    for _ in _gathered_ahead(course, blocks):
        course.compute(FORWARD / blocks)
    for _ in _gathered_ahead(course, blocks):
        course.compute(BACKWARD / blocks)
        if len(scattered) >= MOST_REDUCE_SCATTERS:
            course.wait(scattered[-MOST_REDUCE_SCATTERS])
        scattered.append(course.begin(SCATTER))
    return course.actions


def _gathered_ahead(course: _Course, blocks: int) -> Iterator[int]:
    """The blocks of a pass, each when it has its parameters."""
    gathered = course.begin(GATHER)
    for block in range(blocks):
        course.wait(gathered)
        if block + 1 < blocks:
            gathered = course.begin(GATHER)
        yield block


def predict_step(
    topology: Topology,
    plan: AggregationPlan,
    bytes: int,
    step: ShardedStep,
    element_bytes: int = FLOAT32_BYTES,
) -> Prediction:
    """Predicts a step in which nothing is computed.

    Without overlap that is the time of all collectives, one after another. With it, a block's reduce-scatter runs
    beside the all-gather of the next block backward; all gathers of the forward pass, the first one of the backward
    pass and the last reduce-scatter run alone.

    Args:
        topology: where the plan's nodes and workers are, by name.
        plan: who sums and copies what.
        bytes: of the model's parameters; headers are added.
        step: how it is cut.
        element_bytes: of an element of parameters and gradients on their way.

    Raises:
        PlanError: the plan has no copies, or as for `predict`.
    """
    is_all_reduce(plan, FSDP)
    block_bytes, phases = step.block_bytes(bytes, element_bytes), step.phases()
    known = {
        collective: _Phase.of(flows_of_collective(topology, plan, block_bytes, collective, element_bytes))
        for collective in dict.fromkeys(phases)
    }
    return _one_after_another([known[collective] for collective in phases])


class _Phase(NamedTuple):
    """Flows that begin at one time.

    Attributes:
        schedule: the flows.
        spans: the rates of each over time.
        seconds: until the last one has ended.
    """

    schedule: Schedule
    spans: list[list[Span]]
    seconds: float

    @classmethod
    def of(cls, schedule: Schedule) -> _Phase:
        spans = simulate(schedule.flows, schedule.capacities)
        return cls(schedule, spans, max(one[-1].end_seconds for one in spans if one))


def _one_after_another(phases: Sequence[_Phase]) -> Prediction:
    flows: list[Flow] = []
    spans: list[list[Span]] = []
    begin = 0.0
    for phase in phases:
        before = len(flows)
        for flow in phase.schedule.flows:
            feeds = tuple(before + feed for feed in flow.feeds)
            flows.append(replace(flow, start_seconds=begin, feeds=feeds))
        spans += [[_later(span, begin) for span in one] for one in phase.spans]
        begin += phase.seconds
    capacities = {name: rate for phase in phases for name, rate in phase.schedule.capacities.items()}
    return Prediction.of(flows, spans, capacities)


def _later(span: Span, seconds: float) -> Span:
    return Span(span.begin_seconds + seconds, span.end_seconds + seconds, span.rate_bps)
