"""An engine that speaks `engine_abi.h`, sums over a Gloo group of its own, and fails when a test wants it to."""

from __future__ import annotations

import ctypes
import queue
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch.distributed as dist

import torch

ABI_VERSION = 10
CAPSULE_NAME = b"wiresum._native.engine_abi"
OK, NOT_FINITE, MISMATCH, TIMED_OUT, FAILED, UNFORESEEN, MISSED, NOT_SERVED, WORKER_LOST = range(9)
DTYPES = (torch.float32, torch.float16, torch.bfloat16)
AVERAGE = 1
NO_SHARES = -1
ALL_REDUCE, REDUCE, REDUCE_SCATTER = range(3)

Done = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int32, ctypes.c_char_p)


class Collective(ctypes.Structure):
    """`struct wiresum_collective`."""

    _fields_ = (
        ("kind", ctypes.c_uint32),
        ("root", ctypes.c_uint32),
        ("source", ctypes.c_void_p),
        ("sink", ctypes.c_void_p),
        ("elements", ctypes.c_uint64),
        ("element_type", ctypes.c_uint32),
        ("operation", ctypes.c_uint32),
        ("timeout_us", ctypes.c_uint64),
        ("bits", ctypes.c_uint32),
        ("seed", ctypes.c_uint32),
        ("kept", ctypes.c_void_p),
        ("aside", ctypes.c_void_p),
        ("done", Done),
        ("context", ctypes.c_void_p),
    )


class Span(ctypes.Structure):
    """`struct wiresum_span`."""

    _fields_ = (("start", ctypes.c_uint64), ("end", ctypes.c_uint64))


Tail = ctypes.CFUNCTYPE(
    ctypes.c_uint64, ctypes.c_void_p, ctypes.c_uint64, ctypes.c_uint32, ctypes.c_uint32, ctypes.POINTER(Span),
    ctypes.c_uint64,
)  # fmt: skip
Submit = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.POINTER(Collective))


class Abi(ctypes.Structure):
    """`struct wiresum_engine_abi`."""

    _fields_ = (
        ("version", ctypes.c_uint32),
        ("engine", ctypes.c_void_p),
        ("submit", Submit),
        ("largest_share", ctypes.c_int64),
        ("packs", ctypes.c_uint32),
        ("exact_bytes", ctypes.c_uint32),
        ("tail", Tail),
    )


@dataclass
class Fault:
    """How a collective shall end instead.

    Attributes:
        outcome: what `done` is told; OK to sum after all.
        message: and in which words.
        until: what to wait for before that.
    """

    outcome: int = OK
    message: str = ""
    until: threading.Event | None = None


@dataclass
class MockEngine:
    """One rank's engine. Faults are taken by the collectives submitted next, in order."""

    rank: int
    size: int
    gloo: Any
    faults: list[Fault] = field(default_factory=list)
    submitted: int = 0
    timeouts_us: list[int] = field(default_factory=list)
    closed: bool = False
    lost_node: str | None = None
    stopped: str = ""

    current: ClassVar[MockEngine]

    def __post_init__(self) -> None:
        MockEngine.current = self
        self._inbox: queue.Queue[tuple[Collective, Fault] | None] = queue.Queue()
        self._submit = Submit(self._on_submit)
        self._abi = Abi(ABI_VERSION, None, self._submit, NO_SHARES, 0)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    @property
    def transport(self) -> str:
        return "nothing but memory"

    def abi(self) -> object:
        new = ctypes.pythonapi.PyCapsule_New
        new.restype, new.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
        return new(ctypes.addressof(self._abi), CAPSULE_NAME, None)

    def gone(self) -> str | None:
        return self.lost_node

    def lost(self) -> tuple[int, str] | None:
        return None

    def stop(self, why: str, elsewhere: bool = False) -> None:
        self.stopped = why

    def await_children(self, k: int) -> None:
        self.awaited = k

    def statistics(self) -> dict[str, Any]:
        return {"repetitions": 0, "collectives_summed": self.submitted}

    def close(self) -> None:
        self.closed = True
        self._inbox.put(None)
        self._thread.join()

    def _on_submit(self, _engine: object, collective: Any) -> int:
        if self.closed:
            return 1
        copy = Collective.from_buffer_copy(collective.contents)
        self.submitted += 1
        self.timeouts_us.append(copy.timeout_us)
        self._inbox.put((copy, self.faults.pop(0) if self.faults else Fault()))
        return 0

    def _run(self) -> None:
        while (task := self._inbox.get()) is not None:
            collective, fault = task
            if fault.until is not None:
                fault.until.wait()
            outcome, message = (fault.outcome, fault.message) if fault.outcome else self._sum(collective)
            collective.done(collective.context, outcome, message.encode())

    def _sum(self, collective: Collective) -> tuple[int, str]:
        dtype = DTYPES[collective.element_type]
        values = _memory(collective.source, collective.elements, dtype)
        finite = bool(torch.isfinite(values).all())
        kind = [collective.kind, collective.root, collective.element_type, collective.operation]
        shapes = self._gather([collective.elements, *kind])
        if len(set(shapes)) > 1:
            return MISMATCH, f"ranks passed different tensors: {shapes}"
        if (0,) in self._gather([int(finite)]):
            return NOT_FINITE, ""
        total = values.double()
        self.gloo.allreduce([total]).wait()
        if collective.operation == AVERAGE:
            total /= self.size
        part = self._part(collective)
        if len(part):
            _memory(collective.sink, len(part), dtype).copy_(total[part.start : part.stop])
        return OK, ""

    def _part(self, collective: Collective) -> range:
        """Elements whose results this rank takes."""
        elements = collective.elements
        if collective.kind == REDUCE_SCATTER:
            return range(self.rank * elements // self.size, (self.rank + 1) * elements // self.size)
        is_taken = collective.kind == ALL_REDUCE or collective.root == self.rank
        return range(elements if is_taken else 0)

    def _gather(self, numbers: list[int]) -> list[tuple[int, ...]]:
        mine = torch.tensor(numbers, dtype=torch.int64)
        everyone = [torch.empty_like(mine) for _ in range(self.size)]
        self.gloo.allgather([everyone], [mine]).wait()
        return [tuple(each.tolist()) for each in everyone]


def _memory(address: int, elements: int, dtype: torch.dtype) -> torch.Tensor:
    length = elements * dtype.itemsize
    return torch.frombuffer((ctypes.c_char * length).from_address(address), dtype=dtype)


def install() -> None:
    """In a rank's process: makes groups use this engine."""
    import world

    from wiresum.torch import bootstrap

    def open_mock(
        plan: Any, rank: int, incarnation: int, timeout_s: float, transport: str, *, dead_after_s: float,
        gone_after_s: float, absent: Sequence[int] = (), outlives_workers: bool = False,
        members: Sequence[int] | None = None,
    ) -> MockEngine:  # fmt: skip
        assert incarnation > 0
        assert timeout_s > 0
        assert transport == "auto"
        assert dead_after_s >= 0
        assert gone_after_s >= 0
        assert not absent
        assert not outlives_workers
        seats = list(range(len(plan.workers))) if members is None else list(members)
        rank, size = seats.index(rank), len(seats)
        store = dist.PrefixStore(f"mock/{incarnation}", world.store())
        return MockEngine(rank, size, dist.ProcessGroupGloo(store, rank, size))

    bootstrap.open_engine = open_mock
