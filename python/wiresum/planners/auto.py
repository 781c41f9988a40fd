"""The best of all planners that have an answer, and why it is that one."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from wiresum import wire
from wiresum.errors import PlanError, WiresumError
from wiresum.plan.aggregation_plan import AggregationPlan
from wiresum.plan.exchanges import servers_of
from wiresum.plan.job import Job
from wiresum.plan.options import PlanOptions
from wiresum.plan.placement import participants
from wiresum.predict import predict
from wiresum.predict.collectives import predict_collective
from wiresum.predict.cost import Cost, cost_of_plan, cost_of_ring
from wiresum.predict.framing import wire_bytes
from wiresum.predict.ring import FEWEST_RANKS
from wiresum.topology.model import Topology

Planner = Callable[[Topology, Job, PlanOptions], AggregationPlan]

QUICK = ("direct", "ps", "byteps", "atp", "switchml", "xagg")
"""Planners that do not search, or hardly; they are asked whatever the time."""
SEARCHING = ("grid", "goat", "forest", "joint", "r-ingo", "ingo")
"""Planners that take what time there is, the quickest first: each gets an equal part of what is left, so that the exact
ones find optima where they fit, and bounds elsewhere."""
SAME = 1e-6
"""Relative: times that agree this closely are the same, and fewer bytes on links decide."""


TIE = 0.05
"""Relative: a ring that is quicker by less is no reason against a plan, as predictions are not closer."""
MOST_LINES = 6
"""Times that the answer lists; those of the slowest planners share the last line."""
TCP_LEN = 32
"""Bytes of TCP's header with its usual option, the time stamps."""


@dataclass(frozen=True, eq=False)
class _Answer:
    planner: str
    plan: AggregationPlan
    cost: Cost


def auto(planners: Mapping[str, Planner], topology: Topology, job: Job, options: PlanOptions) -> AggregationPlan:
    """Asks planners, and takes the plan with the least predicted time; of equals, that with fewer bytes on links.

    Those that search are left out where a plan is as quick as the workers' own links, and no other crosses fewer. Plans
    are compared as runners carry them out, headers included, over the network's ways. Where one is too large for
    the prediction, the busiest link's time decides about all. The plan's `planner` tells who was asked, and why this
    one; its `solution` is the chosen planner's.

    Args:
        planners: by name.
        topology: with addresses.
        job: what is placed.
        options: of all of them; `time_limit_s` is for all together.

    Raises:
        PlanError: no planner has a plan; the message has the reason of each.
    """
    participants(topology, job)  # What is wrong with the question is said once.
    refused: dict[str, str] = {}
    answers = list(_answers(planners, topology, job, options, refused))
    if not answers:
        reasons = "; ".join(f"{', '.join(names)}: {reason}" for reason, names in _by_reason(refused).items())
        raise PlanError(f"no planner has a plan for topology {topology.name}: {reasons}")
    predicted = all(one.cost.predicted_seconds is not None for one in answers)
    ranked = _ranked(answers, predicted)
    chosen = ranked[0].plan
    ring_s = quicker_ring_s(topology, job, ranked[0].cost.seconds)
    return chosen.model_copy(update={"planner": explanation(ranked, refused, predicted, _size(job), ring_s)})


def quicker_ring_s(topology: Topology, job: Job, plan_s: float) -> float | None:
    """How long a ring over the same links takes without Wiresum, if that is quicker than a plan.

    Args:
        topology: of both.
        job: which either sums.
        plan_s: `Cost.seconds` of the plan.

    Returns:
        Seconds, with the headers of TCP; None if the plan is quicker, or as quick.

    Raises:
        PlanError: two workers have no path.
    """
    if len(participants(topology, job)) < FEWEST_RANKS:
        return None
    seconds = _ring_s(topology, job)
    return seconds if seconds < plan_s * (1 - TIE) else None


def slow_copies(topology: Topology, job: Job, plan: AggregationPlan) -> str:
    """What to tell users of a plan whose copies cost FSDP2 more time than they save.

    A few servers send each share to each worker; a ring without Wiresum loads all links alike.

    Args:
        topology: where the plan's nodes and workers are.
        job: its gradient is what is reduced and gathered.
        plan: of the job, with copies.

    Returns:
        Who copies, and both times; empty if copies are as quick.

    Raises:
        PlanError: two workers have no path.
    """
    size = _size(job)
    copies_s = predict_collective(topology, plan, size, "pair").seconds
    # Without copies a reduce-scatter is an all-reduce, and an all-gather the second half of a ring's.
    without_s = predict(topology, plan, size).seconds + _ring_s(topology, job) / 2
    if without_s >= copies_s * (1 - TIE):
        return ""
    servers = " and ".join(servers_of(plan))
    return (
        f"copies by {servers}: a reduce-scatter beside an all-gather of {size / 1e6:g} MB is predicted to take "
        f"{copies_s:.4g} s, and {without_s:.4g} s where Gloo gathers; "
        f"leave out --copies, or make the links of {servers} faster"
    )


def _ring_s(topology: Topology, job: Job) -> float:
    """Seconds of a ring's all-reduce, with the headers of TCP."""
    with_headers = (wire.ETHERNET_LEN + job.mtu_bytes) / (job.mtu_bytes - wire.IPV4_LEN - TCP_LEN)
    return cost_of_ring(topology, job).bound_seconds * with_headers


def _answers(
    planners: Mapping[str, Planner], topology: Topology, job: Job, options: PlanOptions, refused: dict[str, str]
) -> Iterator[_Answer]:
    ends_s = time.monotonic() + options.time_limit_s
    size = _size(job)
    is_best = False
    for name in (*QUICK, *SEARCHING):
        left_s = ends_s - time.monotonic()
        if name in SEARCHING:
            if is_best or left_s <= 0:
                refused[name] = "not asked, as nothing is quicker" if is_best else "not asked, as no time was left"
                continue
            left_s /= len(SEARCHING) - SEARCHING.index(name)
        try:
            made = planners[name](topology, job, options.model_copy(update={"time_limit_s": max(left_s, SAME)}))
            answer = _Answer(name, made, cost_of_plan(topology, made, size))
            is_best = is_best or _is_best(topology, answer, size)
            yield answer
        except WiresumError as error:
            refused[name] = str(error).split(";")[0]


def _size(job: Job) -> int:
    return sum(part.bytes for part in job.parts)


def _is_best(topology: Topology, answer: _Answer, size: int) -> bool:
    """Whether no plan is quicker, or has fewer bytes on links: each worker's own links carry its gradient once."""
    plan, seconds = answer.plan, answer.cost.predicted_seconds
    if seconds is None or answer.cost.total_bytes > len(plan.workers) * size * (1 + SAME):
        return False
    sent = sum(wire_bytes(plan, stream, size) for stream in plan.streams)
    return seconds <= sent * 8 / min(_rate_bps(topology, worker.name) for worker in plan.workers) * (1 + SAME)


def _rate_bps(topology: Topology, name: str) -> float:
    """What a node can send and receive over its links together: the slower direction counts."""
    links = topology.links_of(name)
    there = (link.bandwidth_from(name) for link in links)
    back = (link.bandwidth_from(link.other_end(name)) for link in links)
    return min(sum(math.inf if rate is None else rate for rate in rates) for rates in (there, back))


def _seconds(answer: _Answer, predicted: bool) -> float:
    return answer.cost.seconds if predicted else answer.cost.bound_seconds


def _ranked(answers: Sequence[_Answer], predicted: bool) -> list[_Answer]:
    """The best first; of equals the one that was asked first."""
    least = min(_seconds(one, predicted) for one in answers)
    same = [one for one in answers if _seconds(one, predicted) <= least * (1 + SAME)]
    others = [one for one in answers if one not in same]
    return [
        *sorted(same, key=lambda one: one.cost.total_bytes),
        *sorted(others, key=lambda one: _seconds(one, predicted)),
    ]


def explanation(
    ranked: Sequence[_Answer],
    refused: Mapping[str, str],
    predicted: bool,
    size: int,
    ring_s: float | None = None,
) -> str:
    """Who was chosen and why, what the others would take, and why some have no plan: a line each.

    Args:
        ranked: answers, the chosen one first.
        refused: why there is no answer, by planner.
        predicted: whether times are predicted, or those of the busiest link.
        size: bytes that each worker has summed in that time.
        ring_s: seconds of a ring that is quicker than all of them.
    """
    first = ranked[0]
    how = f"{'predicted' if predicted else 'on the busiest link'} for {size / 1e6:g} MB"
    why = f"{first.planner}, the quickest of {len(ranked)} plans with {_seconds(first, predicted):.4g} s {how}"
    if ring_s is not None:
        why = f"a ring without Wiresum is quicker, {ring_s:.4g} s over the same links. The plan comes from {why}"
    times: dict[str, list[str]] = {}
    for one in ranked:
        times.setdefault(f"{_seconds(one, predicted):.4g} s", []).append(one.planner)
    listed = [f"{time}  {', '.join(names)}" for time, names in times.items()]
    if len(listed) > MOST_LINES:
        slower = ", ".join(name for names in list(times.values())[MOST_LINES - 1 :] for name in names)
        listed[MOST_LINES - 1 :] = [f"slower: {slower}"]
    listed += [f"no plan: {', '.join(names)} ({reason})" for reason, names in _by_reason(refused).items()]
    return "\n".join([f"auto: {why}", *(f"  {line}" for line in listed), first.plan.planner])


def _by_reason(refused: Mapping[str, str]) -> dict[str, list[str]]:
    reasons: dict[str, list[str]] = {}
    for name, reason in refused.items():
        reasons.setdefault(reason, []).append(name)
    return reasons
