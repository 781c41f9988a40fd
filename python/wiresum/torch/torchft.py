"""The group of torchft's manager whose gradients are summed in the network.

    manager = torchft.Manager(pg=ProcessGroupWiresum(timeout=timedelta(seconds=30)), ...)

At each change of the quorum the replicas that are in it make a group anew: the next incarnation of the plan's job, of
the seats that they have (`WIRESUM_SEAT`). `docs/elastic.md` is the guide.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Any, cast

from torch._C._distributed_c10d import AllreduceCoalescedOptions, AllreduceOptions, ProcessGroup, Store, Work
from torch.futures import Future
from torchft.process_group import ProcessGroupWrapper

import torch
from wiresum.torch.formation import Formation, Members
from wiresum.torch.group import prepare

if TYPE_CHECKING:
    from torch.distributed.distributed_c10d import GroupName


class NotesErrors(ProcessGroupWrapper):  # type: ignore[misc]  # torchft has no types
    """A group of torchft whose all-reduces do not raise, as its hook of DDP would not survive that.

    `wait()` returns False, and `errored()` has the error, at which the manager looks before it commits a step.
    """

    _error: Exception | None = None

    def configure(self, *arguments: Any, **options: Any) -> None:
        """Called by torchft at each change of the quorum."""
        super().configure(*arguments, **options)
        self._error = None

    def errored(self) -> Exception | None:
        """The first error since the replicas met; None if there was none."""
        return self._error

    def _wrap_work(self, work: Work, opts: object) -> Work:
        is_sum = isinstance(opts, AllreduceOptions | AllreduceCoalescedOptions)
        return _NotedWork(work, self._note) if is_sum else work

    def _note(self, error: Exception) -> None:
        self._error = self._error or error


class ProcessGroupWiresum(NotesErrors):
    """What `torchft.Manager` takes as `pg`.

    A replica that dies is an error at all others `WIRESUM_DEAD_AFTER` seconds later, not at the timeout.

    Args:
        timeout: how long the replicas of a quorum may take to come, and that of collectives.
    """

    def _create_pg(self, store: Store, rank: int, world_size: int) -> ProcessGroup:
        """Called by torchft with a store that no quorum has used, and with this replica's place in this one."""
        tools, failure = prepare()
        name = f"torchft quorum {self._quorum_id}"
        members = Members(rank, world_size, self._timeout, [], name)
        backend = Formation(tools, members, store, store).form(failure=failure)
        group = ProcessGroup(store, rank, world_size)
        group._set_default_backend(ProcessGroup.BackendType.CUSTOM)
        for device in ["cpu", "cuda"] if torch.cuda.is_available() else ["cpu"]:
            group._register_backend(torch.device(device), ProcessGroup.BackendType.CUSTOM, backend)
        group._set_group_name(cast("GroupName", name))
        return group

    def getBackendName(self) -> str:  # noqa: N802 – torch's name
        """As torchft calls groups of its own."""
        return "torchft-wiresum"


class _NotedWork(Work):
    """A collective whose error is noted, and does not raise."""

    def __init__(self, work: Work, note: Callable[[Exception], None]) -> None:
        super().__init__()
        self._work, self._note = work, note

    def wait(self, timeout: timedelta = timedelta(0)) -> bool:
        try:
            return self._work.wait(timeout)
        except Exception as error:
            self._note(error)
            return False

    def block_current_stream(self) -> None:
        self._work.block_current_stream()

    def get_future(self) -> Future[Any]:
        # PyTorch's own, as torchft counts on a complete future to call callbacks at once; none of these submits.
        return Work.get_future(self._work).then(self._result_of)

    def _result_of(self, ended: Future[Any]) -> Any:
        try:
            return ended.value()
        except Exception as error:
            self._note(error)
            return None
