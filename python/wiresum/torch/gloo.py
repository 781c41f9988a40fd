"""The Gloo groups of a process group, which carry what the network does not.

Groups of a sealed or proven job carry encrypted messages (`csrc/sealed_gloo.h`), unless `WIRESUM_OPEN_GLOO` permits
clear traffic.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from types import ModuleType
from typing import TYPE_CHECKING, cast

from torch._C._distributed_c10d import Store
from torch.distributed import ProcessGroupGloo

from wiresum.errors import JoinError
from wiresum.torch.report import gloo_protections
from wiresum.torch.settings import Settings

if TYPE_CHECKING:
    from torch._C._distributed_c10d import Backend
    from torch.distributed.distributed_c10d import GroupName

    from wiresum.plan.aggregation_plan import AggregationPlan
    from wiresum.torch._c10d import Ledger

logger = logging.getLogger("wiresum.torch")

SALT_BYTES = 32
"""Random bytes that a rank contributes to the keys of a group."""
SEALED = "encrypted with the job's keys"
OPEN = "in the clear, as WIRESUM_OPEN_GLOO permits"


def protection_of(plan: AggregationPlan | None, settings: Settings) -> str:
    """How Gloo carries the collectives of a job's ranks; empty if the job is neither sealed nor proven."""
    if plan is None or not (plan.job.sealed or plan.job.proven):
        return ""
    return OPEN if settings.open_gloo else SEALED


@dataclass(frozen=True)
class GlooGroups:
    """Makes Gloo groups.

    Attributes:
        native: the extension.
        group: the name of the process group.
        plan: the plan of the job, if it has one.
        protection: how Gloo carries collectives, as `protection_of` says.
    """

    native: ModuleType
    group: str
    plan: AggregationPlan | None
    protection: str

    def announce(self) -> None:
        """Say how collectives outside the network travel, in a job that asks for protection."""
        if self.protection:
            level = logging.WARNING if self.protection == OPEN else logging.INFO
            logger.log(level, "collectives outside the network travel by Gloo, %s", self.protection)

    def note(self, ledger: Ledger) -> None:
        """Have reports say it."""
        gloo_protections[ledger.id] = self.protection

    def make(
        self,
        store: Store,
        rank: int,
        ranks: Sequence[int],
        timeout: timedelta,
        *,
        prefix: str,
        connect: timedelta | None = None,
        lists_ranks: bool = True,
    ) -> Backend:
        """Make a group, and have its ranks agree on keys.

        Args:
            store: where the ranks meet, for this group only.
            rank: the place of this rank among `ranks`.
            ranks: the members in the default group.
            timeout: the timeout of collectives.
            prefix: the purpose of the group, which no other group of these ranks has.
            connect: the time for the ranks to come, if it is not `timeout`.
            lists_ranks: whether PyTorch knows the members; the default group has no list.

        Raises:
            JoinError: a rank does not have the keys of the job.
        """
        gloo = ProcessGroupGloo(store, rank, len(ranks), timeout=connect or timeout)
        gloo.options.global_ranks_in_group = list(ranks) if lists_ranks else []
        gloo.options.group_name = cast("GroupName", self.group)
        made = self._seal(gloo, rank, ranks, prefix) if self.protection == SEALED else gloo
        if connect is not None:
            made._set_default_timeout(timeout)
        return made

    def _seal(self, gloo: ProcessGroupGloo, rank: int, ranks: Sequence[int], prefix: str) -> Backend:
        from wiresum._native import GlooKeys

        assert self.plan is not None  # without one there is no protection
        secret = self.plan.job.secret
        if secret is None:
            raise JoinError("the job is sealed or proven, and this rank has no secret: set WIRESUM_SECRET_FILE")
        label = json.dumps([self.plan.digest(), self.group, prefix, list(ranks)])
        keys = GlooKeys(secret, label, rank, len(ranks), os.urandom(SALT_BYTES))
        try:
            sealed: Backend = self.native.sealed_gloo(gloo, keys.abi(), list(ranks))
        except RuntimeError as error:
            raise JoinError(
                f"the ranks of group '{self.group}' did not agree on keys for Gloo: {error}. Give all ranks the same "
                "plan and secret"
            ) from error
        return sealed
