"""Groups that go on without ranks that are lost (`WIRESUM_ON_LOSS=continue`): when they may, and in which Gloo groups.

The argument is that of ADR 121. Ranks and the size of a group stay what they were.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from torch._C._distributed_c10d import PrefixStore, Store
from torch.distributed import ProcessGroupGloo

from wiresum.errors import SettingError
from wiresum.plan.aggregation_plan import AggregationPlan
from wiresum.torch.settings import Settings

MOST_RANKS = 256
"""Ranks that nodes can be told of, `Absent::MOST_RANKS` of `crates/wire/src/control.rs`."""
GROUPS = ("inner", "fallback", "afterwards")
"""The groups of Gloo that a group has beside the network, as `Crossing.go_on_without` calls them."""


def check_losses(plan: AggregationPlan, settings: Settings) -> None:
    """Refuses to promise what the job cannot keep.

    Raises:
        SettingError: it could not go on without a rank that is lost, and why.
    """
    if not settings.outlives_ranks:
        return
    problem = _why_not(plan, settings)
    if problem:
        raise SettingError(f"WIRESUM_ON_LOSS=continue does not go with {problem}")


def _why_not(plan: AggregationPlan, settings: Settings) -> str:
    problems = {
        "WIRESUM_DEAD_AFTER=0, as nobody would notice that a rank is lost: set seconds above 0": settings.dead_after_s
        == 0,
        "WIRESUM_REPLAY=0, as what is under way then has to be repeated: set bytes above 0": settings.replay_bytes == 0,
        "turns (WIRESUM_TURNS): leave one of them out": settings.turns is not None,
        "switches that sum, as they wait for every worker: plan servers in their place": plan.fabric is not None,
        "rounds that go on without late workers (`--participants`): plan without them": plan.job.rounds is not None,
        f"{len(plan.workers)} ranks: plan for {MOST_RANKS} at most": len(plan.workers) > MOST_RANKS,
    }
    return next((problem for problem, is_there in problems.items() if is_there), "")


def names(ranks: Sequence[int]) -> str:
    """In words.

    Example:
        >>> names([1, 3])
        'ranks 1, 3'
    """
    return f"rank{'s' if len(ranks) > 1 else ''} {', '.join(map(str, ranks))}"


@dataclass(frozen=True)
class Departure:
    """Why all ranks leave the network, and who is lost.

    Attributes:
        why: for people.
        lost: ranks that are lost now, in order.
    """

    why: str
    lost: tuple[int, ...] = ()

    def to_json(self) -> str:
        """As text for the store."""
        return json.dumps({"why": self.why, "lost": self.lost})

    @classmethod
    def of_json(cls, text: str) -> Departure:
        """What `to_json` has written."""
        told = json.loads(text)
        return cls(told["why"], tuple(told["lost"]))


def groups_of(
    ranks: Sequence[int], rank: int, store: Store, connect: timedelta, timeout: timedelta
) -> dict[str, ProcessGroupGloo]:
    """Groups of Gloo of those who are left, in which their places are their ranks.

    Args:
        ranks: who is left, in order.
        rank: this one.
        store: where they meet, for this purpose alone.
        connect: how long they may take to come.
        timeout: that of their collectives.

    Raises:
        RuntimeError: somebody did not come.
    """
    made = {}
    for name in GROUPS:
        made[name] = ProcessGroupGloo(PrefixStore(name, store), ranks.index(rank), len(ranks), timeout=connect)
        made[name]._set_default_timeout(timeout)
    return made
