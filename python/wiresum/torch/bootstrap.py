"""How the ranks of a group agree, through the group's store, whether they sum in the network.

Every rank publishes what it has, reads what the others have, and comes to the same decision (`decisions.py`); so either
all go on alike or all raise the same exception.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from datetime import timedelta
from pathlib import Path

from pydantic import ValidationError
from torch._C._distributed_c10d import PrefixStore, Store
from torch.distributed import DistError

from wiresum.document import describe, read_text
from wiresum.errors import JoinError, NoTurnError, SettingError, WiresumError
from wiresum.gates.rank import AGREE_S, join_in_turns, plan_in_turn
from wiresum.plan.aggregation_plan import AggregationPlan
from wiresum.plan.incarnation import next_incarnation
from wiresum.plan.job import Job
from wiresum.plan.options import PlanOptions
from wiresum.planners import plan
from wiresum.topology.generators.star import star
from wiresum.torch.connection import Claim
from wiresum.torch.decisions import Decision, Offer, decide, decide_after_join, may_fall_back
from wiresum.torch.engine import Engine, open_engine
from wiresum.torch.losses import check_losses, names
from wiresum.torch.seats import Seating, check_seat, why_not_seats
from wiresum.torch.settings import Settings

AGREE_LOOK_S = 0.2
"""Seconds between two looks whether all ranks have said how their gates are; to wait would keep others from the store.
"""
JOIN_MARGIN_S = 30.0
"""Seconds beyond the join timeout for a rank to say how joining went; a busy machine needs some."""

GONE_AFTER_S = 1.0
"""Seconds of silence after which an aggregator is gone: four times that of a failover, as all ranks leave together."""


def configured_plan(settings: Settings, size: int, rank: int = 0) -> AggregationPlan | None:
    """The plan that the settings name: from a file, from a driver in its turn, or a star around one aggregator.

    Raises:
        PlanError: it cannot be read or made.
        JoinError: the driver has none.
    """
    if settings.plan is not None:
        return AggregationPlan.read(settings.plan, settings.secret_file)
    if settings.turns is not None:
        return AggregationPlan.parse(_plan_in_turn(settings, settings.turns, rank), settings.turns)
    if settings.aggregator is not None:
        return _star_around(settings.aggregator, settings, size)
    return None


def jobs_of(made: AggregationPlan, size: int, global_ranks: Sequence[int] | None) -> list[AggregationPlan]:
    """The jobs of a plan that a process group may be, in the order in which they are claimed.

    Args:
        made: the plan.
        size: ranks of the group.
        global_ranks: those in the default group; absent where it is that group itself.
    """
    if not made.job.groups:
        # A plan may be that of a part of the ranks, who are its workers in their order.
        return [made] if len(made.workers) == size else []
    return made.jobs_of(range(size) if global_ranks is None else global_ranks)


def _plan_in_turn(settings: Settings, driver: str, rank: int) -> str:
    return plan_in_turn(driver, settings.job, rank, settings.secret or _secret_in(settings.secret_file))


def _star_around(aggregator: str, settings: Settings, size: int) -> AggregationPlan:
    try:
        job = Job(
            id=settings.job,
            secret=settings.secret or _secret_in(settings.secret_file),
            values_per_packet=settings.values_per_packet,
            lanes=settings.lanes,
            policy=settings.policy,
            window=settings.window,
        )
        made = plan(star(workers=size), job, PlanOptions(engine="udp"))
    except ValidationError as invalid:
        raise SettingError(f"the WIRESUM_ settings describe no job: {describe(invalid)}") from None
    node = made.nodes[0].model_copy(update={"address": aggregator, "name": "aggregator"})
    workers = [worker.model_copy(update={"address": None, "name": f"rank {worker.rank}"}) for worker in made.workers]
    fields = made.model_copy(update={"nodes": [node], "workers": workers}).model_dump()
    return AggregationPlan.build(**fields)


def _secret_in(file: Path | None) -> str:
    return read_text(file, "WIRESUM_SECRET_FILE", SettingError).strip() if file else ""


class Meeting:
    """The meeting of a group's ranks in its store."""

    def __init__(
        self,
        store: Store,
        rank: int,
        size: int,
        settings: Settings,
        arrival_timeout: timedelta,
        *,
        global_ranks: Sequence[int] | None = None,
        seating: Seating | None = None,
    ) -> None:
        self.store = PrefixStore("meeting", store)
        self.rank = rank
        self.size = size
        self.settings = settings
        self.arrival_timeout = arrival_timeout
        self.global_ranks = global_ranks
        self.seating = seating
        self.seat = settings.seat if seating is None else seating.seat
        self.seats = list(range(size))
        self.plan: AggregationPlan | None = None
        self._jobs: list[AggregationPlan] = []

    def agree(
        self, claim: Claim, failure: WiresumError | None, *, is_default_group: bool
    ) -> tuple[Decision, Engine | None]:
        """Meets the other ranks and, if all agree, joins the job.

        Args:
            claim: the group's claim on the job; held on return if there is an engine.
            failure: what went wrong on this rank so far.
            is_default_group: whether this is the group of all ranks.

        Raises:
            WiresumError: the same on every rank.
        """
        mine = self._offer(claim, failure)
        texts = self._exchange("offer", json.dumps(asdict(mine)), self.arrival_timeout)
        offers = [Offer(**json.loads(text)) for text in texts]
        decision, engine = decide(offers, is_default_group=is_default_group), None
        if decision.network:
            decision, engine = self._join(offers)
        if engine is None:
            claim.release()
        if decision.error is not None:
            raise decision.error
        return decision, engine

    def _offer(self, claim: Claim, failure: WiresumError | None) -> Offer:
        """This rank's offer. Never raises: what goes wrong here, every rank must hear of."""
        offer = Offer(
            min_elements=self.settings.min_elements,
            require=self.settings.require,
            fall_back=self.settings.fall_back,
            incarnation=next_incarnation(),
        )
        try:
            if failure is not None:
                raise failure
            self.plan = self._plan()
        except NoTurnError as refused:
            return replace(offer, refused=str(refused))
        except WiresumError as error:
            return replace(offer, error=str(error), error_kind=type(error).__name__)
        if self.plan is None:
            return offer
        self._jobs = self._possible_jobs(self.plan)
        if self.settings.turns is not None:
            self._jobs = [job for job in self._jobs if job is self.plan]  # the driver gives turns to this one alone
        workers = self.size if self._jobs else len(self.plan.workers)
        job, taken_by = self._claimed(claim) if self.rank == 0 else (0, "")
        groups = len(self.plan.job.groups or [])
        digest = self.plan.digest()
        return replace(
            offer, digest=digest, workers=workers, groups=groups, job=job, taken_by=taken_by, replays=self.replays,
            outlives=self.outlives, seat=-1 if self.seat is None else self.seat,
        )  # fmt: skip

    def _plan(self) -> AggregationPlan | None:
        if self.seating is not None:
            return self.seating.plan
        made = configured_plan(self.settings, self.size, self.rank)
        if made is not None:
            check_losses(made, self.settings)
            if self.seat is not None:
                check_seat(made, self.seat, self.size, self.settings)
        return made

    def _possible_jobs(self, made: AggregationPlan) -> list[AggregationPlan]:
        if self.seat is None:
            return jobs_of(made, self.size, self.global_ranks)
        is_whole = self.size == len(made.workers)
        is_some = self.size < len(made.workers) and not why_not_seats(made, is_whole=False)
        return [made] if is_whole or is_some else []

    def _claimed(self, claim: Claim) -> tuple[int, str]:
        """The first job that these ranks may be and that nobody has; who has the last one if there is none."""
        taken_by = ""
        for index, job in enumerate(self._jobs):
            taken_by = claim.ask(job.digest())
            if not taken_by:
                return index, ""
        return 0, taken_by

    def _join(self, offers: Sequence[Offer]) -> tuple[Decision, Engine | None]:
        engine, failure = self._try_to_join(offers)
        limit = timedelta(seconds=self.settings.join_timeout_s + JOIN_MARGIN_S)
        failures = dict(enumerate(self._exchange("joined", failure, limit)))
        decision = decide_after_join({rank: text for rank, text in failures.items() if text}, offers)
        if not decision.network and engine is not None:
            engine.close()
            engine = None
        return decision, engine

    def _try_to_join(self, offers: Sequence[Offer]) -> tuple[Engine | None, str]:
        self.plan = self._jobs[offers[0].job]
        if self.seat is not None:
            self.seats = [offer.seat for offer in offers]
        timeout_s, incarnation = self.settings.join_timeout_s, offers[0].incarnation
        try:
            if self.settings.turns is not None:
                driver, plan_json = self.settings.turns, self.plan.to_json()
                agree = self.no_gate_was_open if may_fall_back(offers) else None
                return join_in_turns(driver, plan_json, self.rank, incarnation, timeout_s, agree=agree), ""
            return self.open(incarnation, timeout_s), ""
        except Exception as error:  # whatever it is, the other ranks must not wait for this one
            return None, str(error) or type(error).__name__

    @property
    def replays(self) -> bool:
        """Whether collectives go over to Gloo when no aggregator can sum them, and back again."""
        plan, settings = self.plan, self.settings
        is_fit = plan is not None and plan.fabric is None and plan.job.rounds is None
        return is_fit and settings.turns is None and settings.replay_bytes > 0

    @property
    def outlives(self) -> bool:
        """Whether the group goes on by itself without ranks that are lost. One of seats is made anew instead."""
        return self.settings.outlives_ranks and self.seat is None

    def open(self, incarnation: int, timeout_s: float, absent: Sequence[int] = ()) -> Engine:
        """Joins the job of the plan in an incarnation of it, which goes on without some ranks.

        Raises:
            JoinError: no aggregator answered, or one refused.
        """
        assert self.plan is not None
        settings, whole = self.settings, list(range(len(self.plan.workers)))
        return open_engine(
            self.plan, self.seats[self.rank], incarnation, timeout_s, settings.transport,
            dead_after_s=settings.dead_after_s, gone_after_s=GONE_AFTER_S if self.replays else 0.0,
            absent=absent, outlives_workers=self.outlives, members=None if self.seats == whole else self.seats,
        )  # fmt: skip

    def no_gate_was_open(self, was_open: bool) -> bool:
        """Whether no rank of this group has ever had an open gate; False where not all have said so in time."""
        keys = [f"gate/{rank}" for rank in range(self.size)]
        end_s = time.monotonic() + AGREE_S - AGREE_LOOK_S
        try:
            self.store.set(keys[self.rank], "open" if was_open else "shut")
            while not self.store.check(keys):
                if was_open or time.monotonic() > end_s:
                    return False
                time.sleep(AGREE_LOOK_S)
            return all(self.store.get(key) == b"shut" for key in keys)
        except DistError:
            return False

    def _exchange(self, what: str, text: str, limit: timedelta) -> list[str]:
        """Publishes a text and returns everyone's, by rank."""
        keys = [f"{what}/{rank}" for rank in range(self.size)]
        self.store.set(keys[self.rank], text)
        try:
            self.store.wait(keys, limit)
        except DistError as error:
            missing = [rank for rank, key in enumerate(keys) if not self.store.check([key])]
            raise JoinError(
                f"{names(missing)} did not come within {limit} to agree on the network with the others ({what}): "
                "look at their output"
            ) from error
        return [self.store.get(key).decode() for key in keys]
