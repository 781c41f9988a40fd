"""One host of `wiresum bench elastic`: starts its worker, and starts it again when it was killed.

The testbed starts it with RANK, MASTER_ADDR and MASTER_PORT. The first host also has what all of them need: the store
of the membership, or torchft's lighthouse.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from torch._C._distributed_c10d import Store, TCPStore

from wiresum.bench.elastic import membership
from wiresum.bench.task import RankTask

LIGHTHOUSE_MS = 1000
"""For a replica that says nothing, and for those who come late to a quorum; its defaults are 5 and 60 seconds."""


@dataclass(frozen=True)
class Task(RankTask):
    """What a host does.

    Attributes:
        by: how members meet.
        workers: how many hosts there are.
        down_s: until a killed worker is started again.
        stop_file: the worker ends when this is there.
        is_cut: whether workers lose their link. One that has may end with an error before it is killed.
    """

    by: str
    workers: int
    down_s: float
    stop_file: str
    is_cut: bool


@cache
def own_address() -> str:
    """Where the first host, and so every other, reaches this one."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect((os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])))  # sends nothing
        return str(probe.getsockname()[0])


def main() -> int:
    """Runs workers, one after the other, until one ends by itself."""
    task, seat = Task.told(), int(os.environ["RANK"])
    address, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    store = TCPStore(address, port, is_master=seat == 0, wait_for_workers=False)
    with _lead(task, store, address) if seat == 0 else nullcontext():
        code = _run_workers(task, store, seat)
        _leave_last(store, task.workers, leads=seat == 0)
    return max(code, 0)


def _run_workers(task: Task, store: Store, seat: int) -> int:
    """The exit code of the last one."""
    module = "wiresum.bench.elastic.worker" if task.by == "reconfigure" else "wiresum.bench.elastic.replica"
    environment = {"WIRESUM_SEAT": str(seat), "TORCHFT_LIGHTHOUSE": store.get("lighthouse").decode(), "RUST_LOG": "off"}
    life = 0
    while True:
        command = [sys.executable, "-m", module, task.to_json()]
        child = subprocess.Popen(command, env={**os.environ, **environment, "LIFE": str(life)})
        code = child.wait()
        membership.tell(store, "ended", seat=seat, life=life)
        is_lost = code == -signal.SIGKILL or (task.is_cut and code > 0)
        if not is_lost or Path(task.stop_file).exists():
            return code
        life += 1
        time.sleep(task.down_s)


@contextmanager
def _lead(task: Task, store: Store, address: str) -> Iterator[None]:
    """What the first host does for all of them."""
    if task.by == "reconfigure":
        with membership.serving(store, task.workers):
            store.set("lighthouse", "")
            yield
        return
    from torchft.coordination import LighthouseServer

    lighthouse = LighthouseServer(
        bind="[::]:0", min_replicas=1, join_timeout_ms=LIGHTHOUSE_MS, heartbeat_timeout_ms=LIGHTHOUSE_MS
    )
    store.set("lighthouse", f"http://{address}:{lighthouse.address().rsplit(':', 1)[1]}")
    yield
    lighthouse.shutdown()


def _leave_last(store: Store, hosts: int, *, leads: bool) -> None:
    """The store lives in the first host's process."""
    gone = store.add("hosts gone", 1)
    while leads and gone < hosts:
        time.sleep(membership.LOOK_S)
        gone = store.add("hosts gone", 0)


if __name__ == "__main__":
    sys.exit(main())
