"""The C++ extension: the backend and its counters."""

from collections.abc import Callable, Sequence
from datetime import timedelta

from torch._C._distributed_c10d import Backend, Store
from torch.distributed import ProcessGroupGloo, ReduceOp, Work

import torch

REASONS: list[str]
ENGINE_ABI_VERSION: int

class Ledger:
    """Counters of one group."""

    @property
    def id(self) -> int: ...
    @property
    def group(self) -> str: ...
    @property
    def rank(self) -> int: ...
    @property
    def size(self) -> int: ...
    @property
    def no_network(self) -> str: ...
    @property
    def errors(self) -> list[str]: ...
    def rows(self) -> list[tuple[str, str, str, str, int, int, int, int, int]]:
        """Return collective, element type, operation, reason, collectives, elements, bytes, rows, rows of all."""

class Crossing:
    """A group's ways out of the network and back, which all ranks go together."""

    def go_on_without(
        self,
        ranks: list[int],
        lost: str,
        inner: ProcessGroupGloo,
        fallback: ProcessGroupGloo,
        afterwards: ProcessGroupGloo,
    ) -> None:
        """Has these ranks alone leave the network, which go on in these groups; `lost` says who does not.

        To be called before the engine is told that the network serves the job no more.
        """

    def leave(self) -> None:
        """Has the ranks meet; the engine has been told that the network serves the job no more."""

    def lose(self, why: str) -> None:
        """A rank is lost for good: what Gloo has, and gets, ends with a `WorkerLostError` of these words."""

    def hold(self) -> int:
        """Holds back what comes from now on; returns how many collectives the network or Gloo have been given."""

    def go_on(self, first: int, engine: object) -> None:
        """Gives all from the collective of this number on to another engine, a capsule."""

    def fail(self, why: str) -> None:
        """All that is held, and all that comes, fails with these words."""

class WiresumBackend(Backend):
    """The backend of one group."""

    @property
    def ledger(self) -> Ledger: ...
    @property
    def inner(self) -> Backend: ...
    @property
    def leave(self) -> Callable[[], None] | None:
        """What to call once the engine was told, on all ranks, that the network serves the job no more.

        None where the job may not go on without it. It does not keep the backend.
        """

    @property
    def crossing(self) -> Crossing | None:
        """The ways out of the network and back; None where there are none. It does not keep the backend."""

    @property
    def lose(self) -> Callable[[str], None]:
        """What to call once a rank is lost for good, with why, so that all that fails says so.

        It does not keep the backend.
        """

    @property
    def packs(self) -> bool:
        """Whether the network sums numbers of 8 bits."""

    def all_reduce_int8(
        self, tensor: torch.Tensor, operation: ReduceOp, kept: torch.Tensor | None, timeout: timedelta | None
    ) -> Work:
        """Sum by numbers of 8 bits where the network can.

        `kept`, contiguous float32 on the host, gets what they have no room for; without it, chance rounds them.
        """

    def perform_nocolor_split(self, device: torch.device) -> None:
        """Do nothing: PyTorch calls it on ranks outside a new group, where the default group is bound to a device."""

def abort(work: Work) -> None:
    """End the wait for a message of Gloo."""

def connected(
    inner: ProcessGroupGloo,
    fallback: ProcessGroupGloo,
    timeout: timedelta,
    engine: object,
    min_elements: int,
    lane_bytes: int,
    narrow_lane_bytes: int,
    copies: bool,
    open_gloo: Callable[[str], ProcessGroupGloo],
    close: Callable[[], None],
    afterwards: ProcessGroupGloo | None,
    replay_bytes: int | None,
    remake: Callable[[Sequence[int]], WiresumBackend],
    split: Callable[[Store, Sequence[int], timedelta, str], WiresumBackend],
    loss_known_after: timedelta = ...,
) -> WiresumBackend:
    """Make the backend of a group that sums in the network, and by `afterwards` where it may go on without it.

    For that it keeps `replay_bytes` of collectives; None for all that are under way.
    A float32 takes `lane_bytes` on its way, an element of 16 bits `narrow_lane_bytes`. `remake` makes the group of all
    ranks but some, `split` that of some in this order, which meet in the store. What fails in Gloo waits
    `loss_known_after` for the name of a rank that is lost.
    """

def unconnected(
    inner: ProcessGroupGloo,
    timeout: timedelta,
    why: str,
    open_gloo: Callable[[str], ProcessGroupGloo],
    remake: Callable[[Sequence[int]], WiresumBackend],
    split: Callable[[Store, Sequence[int], timedelta, str], WiresumBackend],
) -> WiresumBackend:
    """Make the backend of a group that uses Gloo alone."""

class ReconfigurableBackend(Backend):
    """The backend of a group whose members change."""

    @property
    def members(self) -> Backend | None:
        """The group of the present members; None before there were any."""

def reconfigurable(
    rank: int,
    size: int,
    timeout: timedelta,
    handle: Callable[[], str],
    meet: Callable[[int, Sequence[str], timedelta], WiresumBackend],
) -> ReconfigurableBackend:
    """Make the backend of a group that has no members yet.

    `handle` names this process, `meet` makes the group of members in order of their ranks.
    """

def ledgers() -> list[Ledger]:
    """Return the counters of every group of this process, oldest first."""

def reason_of(work: Work) -> str:
    """Return where a collective was summed, or why not in the network."""

def set_error_types(
    mismatch: type[Exception], timed_out: type[Exception], lost: type[Exception], failed: type[Exception]
) -> None:
    """Set what collectives that fail raise."""
