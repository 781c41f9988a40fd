"""Groups of some of a plan's workers: each rank has a seat, its worker's number in the plan (`WIRESUM_SEAT`)."""

from __future__ import annotations

from dataclasses import dataclass

from wiresum.errors import SettingError
from wiresum.plan.aggregation_plan import AggregationPlan
from wiresum.torch.losses import MOST_RANKS
from wiresum.torch.settings import Settings


@dataclass(frozen=True)
class Seating:
    """A rank's seat.

    Attributes:
        plan: whose workers are the seats.
        seat: the number of one.
    """

    plan: AggregationPlan
    seat: int


def check_seat(plan: AggregationPlan, seat: int, size: int, settings: Settings) -> None:
    """Refuses a seat that the plan has not, or that its job cannot have.

    Args:
        plan: whose workers the seats are.
        seat: this rank's.
        size: ranks of its group.
        settings: those of this rank.

    Raises:
        SettingError: why not, and what to do.
    """
    workers = len(plan.workers)
    if seat >= workers:
        raise SettingError(
            f"WIRESUM_SEAT is {seat}, and the plan has the workers 0 to {workers - 1}: plan for as many as may come"
        )
    problem = _why_not(settings) or why_not_seats(plan, is_whole=size == workers)
    if problem:
        raise SettingError(f"WIRESUM_SEAT does not go with {problem}")


def _why_not(settings: Settings) -> str:
    problems = {
        "WIRESUM_AGGREGATOR, whose star has as many workers as the group has ranks: set WIRESUM_PLAN": (
            settings.plan is None
        ),
        "WIRESUM_ON_LOSS=continue: a group of seats that loses a rank is made anew (docs/elastic.md)": (
            settings.outlives_ranks and settings.seat is not None
        ),
        "turns (WIRESUM_TURNS): leave one of them out": settings.turns is not None,
    }
    return _first(problems)


def why_not_seats(plan: AggregationPlan, *, is_whole: bool) -> str:
    """What of a plan keeps its workers from being ranks in any order, or, if not all are there, some of them."""
    problems = {
        "groups that the plan names (`--mesh`, `--ranks`): make a plan for each group": bool(plan.job.groups),
        "rounds that go on without late workers (`--participants`): plan without them": plan.job.rounds is not None,
        "switches that sum, as they wait for every worker: plan servers in their place": (
            plan.fabric is not None and not is_whole
        ),
        f"{len(plan.workers)} workers: plan for {MOST_RANKS} at most": len(plan.workers) > MOST_RANKS,
    }
    return _first(problems)


def _first(problems: dict[str, bool]) -> str:
    return next((problem for problem, is_there in problems.items() if is_there), "")
