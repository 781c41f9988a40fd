"""Groups whose members change (`enable_reconfigure=True`): how members find each other who have no store in common.

Each process keeps a small store. Its handle says where that is; members meet in the store of the first of them.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

from torch._C._distributed_c10d import PrefixStore, Store, TCPStore

from wiresum.torch.bootstrap import configured_plan
from wiresum.torch.formation import Formation, Members, Tools
from wiresum.torch.settings import Settings

if TYPE_CHECKING:
    from wiresum.torch._c10d import ReconfigurableBackend, WiresumBackend


def create(tools: Tools, members: Members) -> ReconfigurableBackend:
    """The backend of a group that has no members until it is given some.

    Args:
        tools: what its groups are made with.
        members: as `init_process_group()` was told. The rank is this process's seat, unless the settings name one.
    """
    settings = tools.settings
    seat = members.rank if settings.seat is None else settings.seat
    tools = replace(tools, settings=replace(settings, seat=seat if settings.plan else None))
    rendezvous = Rendezvous(tools, members)
    backend: ReconfigurableBackend = tools.native.reconfigurable(
        members.rank, members.size, members.timeout, rendezvous.handle, rendezvous.meet
    )
    return backend


class Rendezvous:
    """Where this process meets others."""

    def __init__(self, tools: Tools, members: Members) -> None:
        self._tools, self._members = tools, members
        self._own: TCPStore | None = None
        self._used: set[int] = set()
        self._handle = ""

    def handle(self) -> str:
        """What others find this process by.

        Raises:
            PlanError: the settings name a plan that cannot be read.
        """
        if not self._handle:
            settings = self._tools.settings
            host = _own_address(settings)
            self._own = TCPStore(host, 0, is_master=True, wait_for_workers=False)
            self._handle = json.dumps({"seat": settings.seat, "host": host, "port": self._own.port})
        return self._handle

    def meet(self, uuid: int, handles: Sequence[str], timeout: timedelta) -> WiresumBackend:
        """The group of these members, in the order of their ranks.

        Args:
            uuid: another one for each group of this process.
            handles: theirs, with this process's own.
            timeout: how long they may take to come.

        Raises:
            ValueError: the number was used before, so that the store has what members said then.
            WiresumError: the same on every member that came.
            torch.distributed.DistError: the first of them cannot be reached.
        """
        if uuid in self._used:
            raise ValueError(f"reconfigure() was given the uuid {uuid} before: pass another one for each group")
        self._used.add(uuid)
        rank = handles.index(self.handle())
        members = replace(self._members, rank=rank, size=len(handles), timeout=timeout, global_ranks=[])
        store = PrefixStore(str(uuid), self._store_of(handles[0], timeout))
        return Formation(self._tools, members, store, store).form()

    def _store_of(self, handle: str, timeout: timedelta) -> Store:
        if handle == self._handle:
            assert self._own is not None  # the handle names it
            return self._own
        first = json.loads(handle)
        return TCPStore(first["host"], first["port"], is_master=False, timeout=timeout)


def _own_address(settings: Settings) -> str:
    """Where others reach this host: where the plan has its worker, or where it sends to aggregators from."""
    plan = configured_plan(settings, 1)
    if plan is None:
        return socket.gethostbyname(socket.gethostname())
    seat = settings.seat
    if seat is not None and seat < len(plan.workers) and plan.workers[seat].address:
        return str(plan.workers[seat].address)
    host, port = plan.nodes[0].address.rsplit(":", 1)
    host = host.strip("[]")
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect((host, int(port)))  # sends nothing
        return str(probe.getsockname()[0])
