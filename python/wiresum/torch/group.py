"""Creates the backend of a process group: what PyTorch calls for `init_process_group("wiresum")`."""

from __future__ import annotations

import hashlib
import logging
from dataclasses import dataclass
from datetime import timedelta
from functools import cache, partial
from types import ModuleType
from typing import TYPE_CHECKING, Any

from torch._C._distributed_c10d import PrefixStore, Store
from torch.distributed import ProcessGroupGloo

from wiresum.errors import (
    CollectiveError,
    CollectiveTimeoutError,
    ExtensionError,
    MismatchError,
    SettingError,
    WiresumError,
    WorkerLostError,
)
from wiresum.plan.choices import lane_bytes
from wiresum.torch import extension
from wiresum.torch.bootstrap import Meeting
from wiresum.torch.connection import Claim, Connection
from wiresum.torch.decisions import Decision
from wiresum.torch.replay import Replay
from wiresum.torch.settings import Settings, misspelt

if TYPE_CHECKING:
    from torch.distributed.distributed_c10d import GroupName

    from wiresum.torch._c10d import WiresumBackend

logger = logging.getLogger("wiresum.torch")


@dataclass(frozen=True)
class Members:
    """Who is in a group: what a Gloo group is made from.

    PyTorch's own options also hold the process group. A backend that kept them would keep the group, which keeps the
    backend: Gloo's threads would then outlive `destroy_process_group()` and meet the interpreter's end, which aborts
    the process.
    """

    rank: int
    size: int
    timeout: timedelta
    enable_reconfigure: bool
    global_ranks: list[int]
    group: GroupName

    @classmethod
    def of(cls, options: Any) -> Members:
        """Those of torch's `_DistributedBackendOptions`."""
        return cls(
            options.group_rank, options.group_size, options.timeout, options.enable_reconfigure,
            options.global_ranks_in_group, options.group_id,
        )  # fmt: skip


def create(options: Any, _backend_options: object | None = None) -> WiresumBackend:
    """Makes the backend of a group.

    Args:
        options: torch's `_DistributedBackendOptions`.
        _backend_options: ignored, as by Gloo.

    Raises:
        WiresumError: the extension is missing, a setting is wrong, the ranks disagree, or the aggregators cannot be
            joined. Every rank raises it, with the ranks that are to blame in the message.
    """
    native, settings, failure = _prepare()
    if _is_first_of_all(options):
        for sentence in misspelt():
            _tell_once(sentence)
    if failure is not None and options.enable_reconfigure:
        raise failure
    members = Members.of(options)
    store = _store_of_this_life(options)
    claim = Claim(_store_of_all_groups(options), options.group_id)
    if options.enable_reconfigure:
        decision, engine = Decision(why_not="its membership may change"), None
    else:
        ranks = options.global_ranks_in_group or None
        meeting = Meeting(store, options.group_rank, options.group_size, settings, options.timeout, global_ranks=ranks)
        is_default_group = ranks is None
        decision, engine = meeting.agree(claim, failure, is_default_group=is_default_group)
    if engine is None:
        _explain_why_not(decision, options)
        alone: WiresumBackend = native.unconnected(
            inner=_gloo(members, store, "gloo"),
            timeout=members.timeout,
            why=decision.why_not,
            open_rows=None if options.enable_reconfigure else partial(_gloo, members, store, "rows"),
        )
        return alone
    assert meeting.plan is not None  # without one there is no engine
    connection = Connection(options.group_id, meeting.plan.digest(), engine, claim)
    try:
        return _connected(native, members, store, connection, meeting)
    except BaseException:
        connection.close()
        raise


def _connected(
    native: ModuleType, members: Members, store: Store, connection: Connection, meeting: Meeting
) -> WiresumBackend:
    assert meeting.plan is not None  # without one there is no connection
    backend: WiresumBackend = native.connected(
        inner=_gloo(members, store, "gloo"),
        fallback=_gloo(members, store, "not_finite"),
        timeout=members.timeout,
        engine=connection.abi,
        min_elements=meeting.settings.min_elements,
        lane_bytes=meeting.plan.job.value_bytes,
        narrow_lane_bytes=lane_bytes(meeting.plan.job.lanes, element_bytes=2),
        # What a job may have to do again elsewhere is sums alone.
        copies=any(stream.is_exchange for stream in meeting.plan.streams) and not connection.may_leave,
        open_rows=partial(_gloo, members, store, "rows"),
        close=connection.close,
        afterwards=_gloo(members, store, "afterwards") if connection.may_leave or meeting.replays else None,
        replay_bytes=meeting.settings.replay_bytes if meeting.replays else None,
    )
    connection.keep_books(backend.ledger)
    connection.follow(backend.leave)
    if meeting.replays:
        assert backend.crossing is not None  # it has a group for afterwards
        connection.replay_by(Replay(store, meeting, connection, backend.crossing))
    return backend


def _prepare() -> tuple[ModuleType, Settings, WiresumError | None]:
    """The extension, the settings, and what is wrong with them: the other ranks must hear of it before it is raised."""
    try:
        settings = Settings.from_environment()
        _set_up_logging(settings)
        native = extension.load()
    except (SettingError, ExtensionError) as error:
        return ModuleType("missing"), Settings(), error
    native.set_error_types(MismatchError, CollectiveTimeoutError, WorkerLostError, CollectiveError)
    return native, settings, None


def _gloo(members: Members, store: Store, prefix: str) -> ProcessGroupGloo:
    """A Gloo group as PyTorch itself would make it."""
    gloo = ProcessGroupGloo(
        PrefixStore(prefix, store),
        members.rank,
        members.size,
        timeout=members.timeout,
        enable_reconfigure=members.enable_reconfigure,
    )
    gloo.options.global_ranks_in_group = members.global_ranks
    gloo.options.group_name = members.group
    return gloo


def _store_of_this_life(options: Any) -> Store:
    """A part of the group's store that no earlier group of the same name has used.

    A program may destroy its groups and create them again in the same store. Each rank counts the lives of the group of
    this name and these members, so the counts of all members are equal.
    """
    members = hashlib.sha256(repr(options.global_ranks_in_group).encode()).hexdigest()[:16]
    life = options.store.add(f"life/{members}/{options.group_rank}", 1)
    return PrefixStore(f"life/{members}/{life}", options.store)


def _store_of_all_groups(options: Any) -> Store:
    """The store that all of `new_group()` share: PyTorch adds a prefix for the group and one for the device."""
    store: Store = options.store
    for _ in range(2):
        if isinstance(store, PrefixStore):
            store = store.underlying_store
    return store


def _explain_why_not(decision: Decision, options: Any) -> None:
    """A group without the network is worth a warning, unless another one has it."""
    level = logging.INFO if Connection.by_job else logging.WARNING
    if options.group_rank == 0:
        logger.log(level, "group '%s' uses Gloo for everything: %s", options.group_id, decision.why_not)


def _is_first_of_all(options: Any) -> bool:
    """Whether this is rank 0 of the whole job; PyTorch lists no ranks for the group of all."""
    ranks: list[int] = options.global_ranks_in_group
    rank: int = ranks[options.group_rank] if ranks else options.group_rank
    return rank == 0


@cache
def _tell_once(sentence: str) -> None:
    """A warning that is not repeated, however many groups there are."""
    logger.warning("%s", sentence)


def _set_up_logging(settings: Settings) -> None:
    """Messages go to standard error unless the program has its own idea of logging."""
    package_logger = logging.getLogger("wiresum")
    if settings.log == "off":
        package_logger.disabled = logger.disabled = True
        return
    if package_logger.level == logging.NOTSET:
        package_logger.setLevel(settings.log.upper())
    if not package_logger.hasHandlers():
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("wiresum: %(levelname)s: %(message)s"))
        package_logger.addHandler(handler)
