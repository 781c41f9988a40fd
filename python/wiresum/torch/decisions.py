"""What the ranks of a group do with what each of them brings along: pure functions, so that all conclude alike."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from wiresum import errors
from wiresum.errors import JoinError, NoTurnError, PlanError, SettingError, WiresumError
from wiresum.torch.losses import names


@dataclass(frozen=True)
class Offer:
    """What one rank brings along.

    Attributes:
        digest: fingerprint of its plan; empty without one.
        workers: workers of the job that the group is to be: its ranks, or those of a plan that has no such group.
        min_elements: its threshold.
        error: what went wrong on this rank; empty if nothing.
        error_kind: the class in `wiresum.errors` of that.
        require: whether it insists on the network.
        fall_back: whether it accepts Gloo instead.
        incarnation: microseconds since the epoch; rank 0's counts.
        groups: how many groups its plan names.
        job: which of the jobs that these ranks may be it has claimed, as rank 0 does for all.
        taken_by: who has the last one of them already, as rank 0 sees it.
        refused: why the driver of turns has none for the job.
        replays: whether it keeps what it needs to go on over Gloo.
        outlives: whether it goes on without ranks that are lost.
        seat: which of the plan's workers it is; -1 if nobody has said so, and its rank decides.
    """

    digest: str = ""
    workers: int = 0
    min_elements: int = 0
    error: str = ""
    error_kind: str = ""
    require: bool = False
    fall_back: bool = False
    incarnation: int = 0
    groups: int = 0
    job: int = 0
    taken_by: str = ""
    refused: str = ""
    replays: bool = False
    outlives: bool = False
    seat: int = -1


@dataclass(frozen=True)
class Decision:
    """What the ranks do.

    Attributes:
        network: whether they join the job.
        why_not: the reason if not.
        error: an exception that all ranks raise.
    """

    network: bool = False
    why_not: str = ""
    error: WiresumError | None = None


def decide(offers: Sequence[Offer], *, is_default_group: bool) -> Decision:
    """What ranks with these offers do. Pure, so every rank comes to the same decision.

    Args:
        offers: by rank.
        is_default_group: whether this is the group of all ranks, which WIRESUM_REQUIRE is about.
    """
    error = _failures(offers)
    if error is None and any(offer.refused for offer in offers):
        return _without_a_turn(offers)
    error = error or _missing_plans(offers) or _differences(offers)
    if error is not None:
        return Decision(error=error)
    why = _why_not(offers, is_default_group=is_default_group)
    insisting = [rank for rank, offer in enumerate(offers) if offer.require]
    if why and insisting and is_default_group:
        needs = f"WIRESUM_REQUIRE is set on {names(insisting)}, and the group cannot sum in the network"
        return Decision(error=PlanError(f"{needs}: {why}"))
    if not why and offers[0].taken_by:
        why = f"the plan's job is in use by {offers[0].taken_by}; plan one for this group too (`wiresum plan --ranks`)"
    return Decision(network=not why, why_not=why)


def _why_not(offers: Sequence[Offer], *, is_default_group: bool) -> str:
    """Why ranks that agree have no job of a plan; empty if they have one."""
    first = offers[0]
    if not first.digest:
        return "neither WIRESUM_PLAN nor WIRESUM_AGGREGATOR is set; set one to sum in the network"
    if first.workers == len(offers):
        return ""
    why = f"the plan is for {first.workers} workers, and the group has {len(offers)} ranks"
    if first.groups:
        return f"{why}, which are none of its {first.groups} groups; name them too (`wiresum plan --mesh` or `--ranks`)"
    return f"{why}; " + ("plan for as many" if is_default_group else "name them in a plan (`wiresum plan --ranks`)")


def _without_a_turn(offers: Sequence[Offer]) -> Decision:
    why = next(offer.refused for offer in offers if offer.refused)
    if may_fall_back(offers):
        return Decision(why_not=why)
    return Decision(error=NoTurnError(f"{why}. Set WIRESUM_FALLBACK=gloo to train without the network."))


def may_fall_back(offers: Sequence[Offer]) -> bool:
    """Whether all ranks accept Gloo where the network cannot be had."""
    return all(offer.fall_back for offer in offers) and not any(offer.require for offer in offers)


def _failures(offers: Sequence[Offer]) -> WiresumError | None:
    failed = [offer for offer in offers if offer.error]
    if not failed:
        return None
    alike = _ranks_by([offer.error for offer in offers])
    listing = "; ".join(f"{names(ranks)}: {error}" for error, ranks in alike.items() if error)
    kind = getattr(errors, failed[0].error_kind, WiresumError)
    made: WiresumError = kind(f"the group cannot be created: {listing}")
    return made


def _missing_plans(offers: Sequence[Offer]) -> WiresumError | None:
    without = [rank for rank, offer in enumerate(offers) if not offer.digest]
    if len(without) in (0, len(offers)):
        return None
    return PlanError(
        f"{names(without)} have no plan, the others do: set WIRESUM_PLAN or WIRESUM_AGGREGATOR on every rank"
    )


def _differences(offers: Sequence[Offer]) -> WiresumError | None:
    plans = _ranks_by([offer.digest for offer in offers])
    if len(plans) > 1:
        listing = ", ".join(f"{digest} on {names(ranks)}" for digest, ranks in plans.items())
        return PlanError(f"the ranks have different plans ({listing}): give all of them the same one")
    thresholds = _ranks_by([str(offer.min_elements) for offer in offers])
    if len(thresholds) > 1:
        listing = ", ".join(f"{value} on {names(ranks)}" for value, ranks in thresholds.items())
        return SettingError(f"WIRESUM_MIN_ELEMENTS differs ({listing}): set it alike on all ranks")
    replays = _ranks_by(["on" if offer.replays else "off" for offer in offers])
    if len(replays) > 1:
        listing = ", ".join(f"{value} on {names(ranks)}" for value, ranks in replays.items())
        return SettingError(f"WIRESUM_REPLAY differs ({listing}): set it to 0 on all ranks, or on none")
    outlives = _ranks_by(["continue" if offer.outlives else "fail" for offer in offers])
    if len(outlives) > 1:
        listing = ", ".join(f"{value} on {names(ranks)}" for value, ranks in outlives.items())
        return SettingError(f"WIRESUM_ON_LOSS differs ({listing}): set it alike on all ranks")
    return _misplaced([offer.seat for offer in offers])


def _misplaced(seats: Sequence[int]) -> WiresumError | None:
    without = [rank for rank, seat in enumerate(seats) if seat < 0]
    if len(without) == len(seats):
        return None
    if without:
        return SettingError(
            f"WIRESUM_SEAT is set on other ranks, but not on {names(without)}: set it on all ranks, each to another of "
            "the plan's workers, or on none"
        )
    shared = {seat: ranks for seat, ranks in _ranks_by([str(seat) for seat in seats]).items() if len(ranks) > 1}
    if shared:
        listing = ", ".join(f"{seat} on {names(ranks)}" for seat, ranks in shared.items())
        return SettingError(
            f"several ranks have the same WIRESUM_SEAT ({listing}): give each another of the plan's workers"
        )
    return None


def decide_after_join(failures: dict[int, str], offers: Sequence[Offer]) -> Decision:
    """What the ranks do once each knows who has joined. Pure."""
    if not failures:
        return Decision(network=True)
    alike = _ranks_by([failures.get(rank, "") for rank in range(len(offers))])
    listing = "; ".join(f"{names(ranks)}: {failure}" for failure, ranks in alike.items() if failure)
    if may_fall_back(offers):
        return Decision(why_not=f"the aggregators could not be joined ({listing})")
    return Decision(
        error=JoinError(
            f"the aggregators could not be joined. {listing}. "
            "Start wiresum-node with this plan, or set WIRESUM_FALLBACK=gloo to train without it."
        )
    )


def _ranks_by(values: Sequence[str]) -> dict[str, list[int]]:
    ranks: dict[str, list[int]] = {}
    for rank, value in enumerate(values):
        ranks.setdefault(value, []).append(rank)
    return ranks
