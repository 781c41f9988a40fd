"""The best of all planners that have an answer, and why it is that one."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from wiresum.errors import PlanError, WiresumError
from wiresum.plan.aggregation_plan import AggregationPlan
from wiresum.plan.job import Job
from wiresum.plan.options import PlanOptions
from wiresum.plan.placement import participants
from wiresum.predict.cost import Cost, cost_of_plan
from wiresum.topology.model import Topology

Planner = Callable[[Topology, Job, PlanOptions], AggregationPlan]

QUICK = ("direct", "ps", "byteps", "atp", "switchml", "xagg")
"""Planners that do not search, or hardly; they are asked whatever the time."""
SEARCHING = ("grid", "goat", "forest", "joint", "r-ingo", "ingo")
"""Planners that take what time there is, the quickest first: each gets an equal part of what is left, so that the exact
ones find optima where they fit, and bounds elsewhere."""
SAME = 1e-6
"""Relative: times that agree this closely are the same, and fewer bytes on links decide."""


@dataclass(frozen=True, eq=False)
class _Answer:
    planner: str
    plan: AggregationPlan
    cost: Cost


def auto(planners: Mapping[str, Planner], topology: Topology, job: Job, options: PlanOptions) -> AggregationPlan:
    """Asks every planner, and takes the plan with the least predicted time; of equals, that with fewer bytes on links.

    Plans are compared as runners carry them out, headers included, over the network's ways. Where one is too large for
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
        by_reason: dict[str, list[str]] = {}
        for name, reason in refused.items():
            by_reason.setdefault(reason, []).append(name)
        reasons = "; ".join(f"{', '.join(names)}: {reason}" for reason, names in by_reason.items())
        raise PlanError(f"no planner has a plan for topology {topology.name}: {reasons}")
    predicted = all(one.cost.predicted_seconds is not None for one in answers)
    ranked = _ranked(answers, predicted)
    chosen = ranked[0].plan
    text = explanation(ranked, refused, predicted, of_chosen=chosen.planner)
    return chosen.model_copy(update={"planner": text})


def _answers(
    planners: Mapping[str, Planner], topology: Topology, job: Job, options: PlanOptions, refused: dict[str, str]
) -> Iterator[_Answer]:
    ends_s = time.monotonic() + options.time_limit_s
    size = sum(part.bytes for part in job.parts)
    for name in (*QUICK, *SEARCHING):
        left_s = ends_s - time.monotonic()
        if name in SEARCHING:
            if left_s <= 0:
                refused[name] = "no time was left"
                continue
            left_s /= len(SEARCHING) - SEARCHING.index(name)
        try:
            made = planners[name](topology, job, options.model_copy(update={"time_limit_s": max(left_s, SAME)}))
            yield _Answer(name, made, cost_of_plan(topology, made, size))
        except WiresumError as error:
            refused[name] = str(error).split(";")[0]


def _seconds(answer: _Answer, predicted: bool) -> float:
    cost = answer.cost
    return cost.predicted_seconds if predicted and cost.predicted_seconds is not None else cost.bound_seconds


def _ranked(answers: Sequence[_Answer], predicted: bool) -> list[_Answer]:
    """The best first; of equals the one that was asked first."""
    least = min(_seconds(one, predicted) for one in answers)
    same = [one for one in answers if _seconds(one, predicted) <= least * (1 + SAME)]
    others = [one for one in answers if one not in same]
    return [
        *sorted(same, key=lambda one: one.cost.total_bytes),
        *sorted(others, key=lambda one: _seconds(one, predicted)),
    ]


def explanation(ranked: Sequence[_Answer], refused: Mapping[str, str], predicted: bool, of_chosen: str) -> str:
    """Who was chosen and why, what the others would take, and why some have no plan."""
    first = ranked[0]
    how = "predicted" if predicted else "for the busiest link"
    why = f"auto: {first.planner}, the quickest of {len(ranked)} plans with {_seconds(first, predicted):.4g} s {how}"
    same = [one for one in ranked[1:] if _seconds(one, predicted) <= _seconds(first, predicted) * (1 + SAME)]
    if same:
        names = ", ".join(one.planner for one in same)
        why += f" (as quick, and not fewer than its {first.cost.total_bytes / 1e6:,.0f} MB on links: {names})"
    slower = [f"{one.planner} {_seconds(one, predicted):.4g} s" for one in ranked[1:] if one not in same]
    parts = [why, *(["slower: " + ", ".join(slower)] if slower else [])]
    parts += ["no plan: " + ", ".join(f"{name} ({reason})" for name, reason in refused.items())] if refused else []
    return "; ".join([*parts, of_chosen])
