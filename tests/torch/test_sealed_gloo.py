"""Gloo groups of a sealed or proven job, with threads as ranks: they do what Gloo does, and nothing else opens.

Where a rank's messages pass somebody who changes them, `Between` stands between the ranks.
"""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest
import torch.distributed as dist
from torch._C._distributed_c10d import (
    AllgatherOptions,
    AllreduceCoalescedOptions,
    AllreduceOptions,
    AllToAllOptions,
    BroadcastOptions,
    GatherOptions,
    ReduceOptions,
    ReduceScatterOptions,
    ScatterOptions,
)

import torch
from wiresum._native import GlooKeys
from wiresum.plan.job import Job
from wiresum.plan.options import PlanOptions
from wiresum.planners import plan
from wiresum.topology.generators.star import star
from wiresum.torch import extension
from wiresum.torch.decisions import Offer, decide
from wiresum.torch.gloo import protection_of
from wiresum.torch.settings import Settings

RANKS = 3
TIMEOUT = timedelta(seconds=60)
SECRET = "5a" * 32
SLICES = 5_000_003
"""Elements of float32 that take several slices, and do not divide by the number of ranks."""
LEAST_CHANGED = 8192
"""Bytes of a piece that is changed: the middle of a long one has values, and no header of Gloo."""
ADDRESS = b"\x02\x00%b\x7f\x00\x00\x01"
"""An address of loopback in Gloo's messages: family, port, host."""

SUM = dist.ReduceOp.SUM


class Between:
    """Relays connections to a port, and changes a byte of each long piece once it attacks."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.attacks = threading.Event()
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            near = self._listener.accept()[0]
            far = socket.create_connection(("127.0.0.1", self._target))
            for one, other in ((near, far), (far, near)):
                threading.Thread(target=self._pass, args=(one, other), daemon=True).start()

    def _pass(self, source: socket.socket, sink: socket.socket) -> None:
        try:
            while piece := bytearray(source.recv(1 << 16)):
                if self.attacks.is_set() and len(piece) >= LEAST_CHANGED:
                    piece[len(piece) // 2] ^= 1
                sink.sendall(piece)
        except OSError:
            pass
        for end in (source, sink):
            end.close()


class LyingStore(dist.Store):
    """Names a relay in place of each rank's own address."""

    def __init__(self, honest: dist.Store) -> None:
        super().__init__()
        self._honest = honest
        self.relays: list[Between] = []

    def set(self, key: str, value: Any) -> None:
        text = bytes(value.encode() if isinstance(value, str) else value)
        at = text.find(b"\x7f\x00\x00\x01")
        if at >= len(ADDRESS) and text[at - 4 : at - 2] == b"\x02\x00":
            relay = Between(struct.unpack(">H", text[at - 2 : at])[0])
            self.relays.append(relay)
            text = text.replace(text[at - 4 : at + 4], ADDRESS % struct.pack(">H", relay.port))
        self._honest.set(key, text)

    def get(self, key: str) -> bytes:
        return self._honest.get(key)

    def wait(self, keys: list[str], timeout: timedelta = TIMEOUT) -> None:
        self._honest.wait(keys, timeout)

    def add(self, key: str, amount: int) -> int:
        return self._honest.add(key, amount)

    def check(self, keys: list[str]) -> bool:
        return self._honest.check(keys)


class Group:
    """A group of Gloo among threads."""

    def __init__(self, secrets: Sequence[str] = (), label: str = "", store: dist.Store | None = None) -> None:
        native = extension.load()  # before there are threads
        self._pool = ThreadPoolExecutor(RANKS)
        store = store or dist.HashStore()

        def join(rank: int) -> Any:
            gloo = dist.ProcessGroupGloo(store, rank, RANKS, timeout=TIMEOUT)
            if not secrets:
                return gloo
            keys = GlooKeys(secrets[rank], label, rank, RANKS, bytes([rank, 1] * 16))
            return native.sealed_gloo(gloo, keys.abi(), list(range(RANKS)))

        self.backends = self.each(lambda rank, _: join(rank))

    backends: Sequence[Any] = (None,) * RANKS

    def each(self, call: Callable[[int, Any], Any]) -> list[Any]:
        """What each rank returns, or raises."""

        def run(rank: int) -> Any:
            try:
                return call(rank, self.backends[rank])
            except Exception as error:
                return error

        return list(self._pool.map(run, range(RANKS)))

    def close(self) -> None:
        """Closes all connections."""
        self.backends = (None,) * RANKS
        self._pool.shutdown()


@contextmanager
def group(**options: Any) -> Iterator[Group]:
    made = Group(**options)
    yield made
    made.close()


@pytest.fixture(scope="module")
def plain() -> Iterator[Group]:
    with group() as made:
        yield made


@pytest.fixture(scope="module")
def sealed() -> Iterator[Group]:
    with group(secrets=[SECRET] * RANKS) as made:
        yield made


def values(rank: int, count: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    generator = torch.Generator().manual_seed(rank)
    return torch.randint(0, 3, (count,), generator=generator).to(dtype)


def after(work: Any, *tensors: torch.Tensor) -> list[torch.Tensor]:
    work.wait()
    return list(tensors)


def with_(options: Any, **fields: Any) -> Any:
    for name, value in fields.items():
        setattr(options, name, value)
    return options


def all_reduce(operation: Any, dtype: torch.dtype, count: int) -> Callable[[int, Any], list[torch.Tensor]]:
    def call(rank: int, gloo: Any) -> list[torch.Tensor]:
        tensor = values(rank, count, dtype)
        return after(gloo.allreduce([tensor], with_(AllreduceOptions(), reduceOp=operation)), tensor)

    return call


def coalesced(rank: int, gloo: Any) -> list[torch.Tensor]:
    tensors = [values(rank, 7), values(rank + 9, 5)]
    return after(gloo.allreduce_coalesced(tensors, AllreduceCoalescedOptions()), *tensors)


def sparse(rank: int, gloo: Any) -> list[torch.Tensor]:
    indices = torch.tensor([[rank, rank + 1, 4]])
    tensor = torch.sparse_coo_tensor(indices, torch.ones(3, 2) * (rank + 1), (6, 2)).coalesce()
    gloo.allreduce([tensor], AllreduceOptions()).wait()
    return [tensor.to_dense()]


def strided(rank: int, gloo: Any) -> list[torch.Tensor]:
    tensor = values(rank, 12).view(3, 4).t()
    return after(gloo.allreduce([tensor], AllreduceOptions()), tensor)


def reduce(rank: int, gloo: Any) -> list[torch.Tensor]:
    tensor = values(rank, 10_001)
    gloo.reduce([tensor], with_(ReduceOptions(), rootRank=1)).wait()
    return [tensor] if rank == 1 else []


def reduce_scatter(rank: int, gloo: Any) -> list[torch.Tensor]:
    output = torch.zeros(4)
    inputs = [values(rank + 10 * to, 4) for to in range(RANKS)]
    return after(gloo.reduce_scatter([output], [inputs], ReduceScatterOptions()), output)


def reduce_scatter_single(rank: int, gloo: Any) -> list[torch.Tensor]:
    output = torch.zeros(SLICES // 3)
    options = ReduceScatterOptions()
    return after(gloo._reduce_scatter_base(output, values(rank, RANKS * len(output)), options), output)


def reduce_scatter_several(rank: int, gloo: Any) -> list[torch.Tensor]:
    outputs = [torch.zeros(2), torch.zeros(3)]
    inputs = [values(rank, 6), values(rank, 9)]
    return after(gloo.reduce_scatter_tensor_coalesced(outputs, inputs, ReduceScatterOptions()), *outputs)


def broadcast(rank: int, gloo: Any) -> list[torch.Tensor]:
    tensor = values(rank, SLICES)
    return after(gloo.broadcast([tensor], with_(BroadcastOptions(), rootRank=2)), tensor)


def all_gather(rank: int, gloo: Any) -> list[torch.Tensor]:
    outputs = [torch.zeros(5, dtype=torch.int16) for _ in range(RANKS)]
    return after(gloo.allgather([outputs], [values(rank, 5, torch.int16)], AllgatherOptions()), *outputs)


def all_gather_single(rank: int, gloo: Any) -> list[torch.Tensor]:
    output = torch.zeros(RANKS * 1_000_001)
    return after(gloo._allgather_base(output, values(rank, 1_000_001), AllgatherOptions()), output)


def all_gather_several(rank: int, gloo: Any) -> list[torch.Tensor]:
    outputs = [torch.zeros(6), torch.zeros(9)]
    inputs = [values(rank, 2), values(rank, 3)]
    return after(gloo.allgather_into_tensor_coalesced(outputs, inputs, AllgatherOptions()), *outputs)


def gather(rank: int, gloo: Any) -> list[torch.Tensor]:
    outputs = [torch.zeros(5) for _ in range(RANKS)] if rank == 1 else []
    options = with_(GatherOptions(), rootRank=1)
    return after(gloo.gather([outputs] if rank == 1 else [], [values(rank, 5)], options), *outputs)


def scatter(rank: int, gloo: Any) -> list[torch.Tensor]:
    output = torch.zeros(5)
    inputs = [[values(to, 5) for to in range(RANKS)]] if rank == 2 else []
    return after(gloo.scatter([output], inputs, with_(ScatterOptions(), rootRank=2)), output)


def all_to_all_single(rank: int, gloo: Any) -> list[torch.Tensor]:
    sizes = [[(one + other) % RANKS for other in range(RANKS)] for one in range(RANKS)]
    output = torch.zeros(sum(sizes[one][rank] for one in range(RANKS)), 2)
    given = values(rank, 2 * sum(sizes[rank])).view(-1, 2)
    taken = [sizes[one][rank] for one in range(RANKS)]
    return after(gloo.alltoall_base(output, given, taken, sizes[rank], AllToAllOptions()), output)


def messages(rank: int, gloo: Any) -> list[torch.Tensor]:
    """Two messages with a tag to the next rank, one with another tag, which is taken first; one from any rank."""
    to, source = (rank + 1) % RANKS, (rank - 1) % RANKS
    sent = [gloo.send([values(10 * rank + number, 6)], to, tag) for number, tag in enumerate((7, 7, 8, 9))]
    taken = [torch.zeros(6) for _ in range(4)]
    works = [gloo.recv([taken[number]], source, tag) for number, tag in enumerate((7, 7, 8))]
    works.append(gloo.recv_anysource([taken[3]], 9))
    for work in (works[2], works[1], works[0], works[3], *sent):
        work.wait()
    return taken


def futures(rank: int, gloo: Any) -> list[torch.Tensor]:
    tensor = values(rank, 100)
    return [gloo.allreduce([tensor], AllreduceOptions()).get_future().wait()[0]]


def many(rank: int, gloo: Any) -> list[torch.Tensor]:
    tensors = [values(rank + number, 10) for number in range(20)]
    works = [gloo.allreduce([tensor], AllreduceOptions()) for tensor in tensors]
    for work in reversed(works):
        work.wait()
    return tensors


def barrier(rank: int, gloo: Any) -> list[torch.Tensor]:
    gloo.barrier().wait()
    return []


FLOATS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
REDUCIBLE = [
    (operation, dtype)
    for dtype in (*FLOATS, torch.int64, torch.int32, torch.int8, torch.uint8)
    for operation in ("SUM", "PRODUCT", "MIN", "MAX", "BAND", "BOR", "BXOR")
    if not (dtype.is_floating_point and operation.startswith("B"))
]  # fmt: skip
FORMS = [
    coalesced, sparse, strided, reduce, reduce_scatter, reduce_scatter_single, reduce_scatter_several, broadcast,
    all_gather, all_gather_single, all_gather_several, gather, scatter, all_to_all_single, messages, futures, many,
    barrier,
]  # fmt: skip


def alike(one: list[Any], other: list[Any]) -> bool:
    assert not [error for error in [*one, *other] if isinstance(error, Exception)]
    return all(torch.equal(a, b) for x, y in zip(one, other, strict=True) for a, b in zip(x, y, strict=True))


@pytest.mark.parametrize("form", FORMS)
def test_does_what_gloo_does(plain: Group, sealed: Group, form: Callable[[int, Any], Any]) -> None:
    assert alike(sealed.each(form), plain.each(form))


def test_reduces_every_type_by_every_operation_as_gloo(plain: Group, sealed: Group) -> None:
    for operation, dtype in REDUCIBLE:
        for count in (13, 9000):
            call = all_reduce(getattr(dist.ReduceOp, operation), dtype, count)
            assert alike(sealed.each(call), plain.each(call)), (operation, dtype)
    call = all_reduce(SUM, torch.float32, SLICES)
    assert alike(sealed.each(call), plain.each(call))


def test_a_rank_without_the_secret_is_not_let_in() -> None:
    with group(secrets=[SECRET, SECRET, "00" * 32]) as made:
        for error in made.backends[:2]:
            assert "a packet from rank 2 is not authentic" in str(error)


def test_a_group_with_another_label_has_other_keys(sealed: Group) -> None:
    with group(secrets=[SECRET] * RANKS, label="another") as made:
        assert alike(made.each(coalesced), sealed.each(coalesced))


def test_a_changed_message_is_an_error_that_names_its_sender() -> None:
    store = LyingStore(dist.HashStore())
    with group(secrets=[SECRET] * RANKS, store=store) as made:
        big = all_reduce(SUM, torch.float32, 1_000_000)
        right = made.each(big)
        for relay in store.relays:
            relay.attacks.set()
        changed = made.each(big)
        errors = [str(result) for result in changed if isinstance(result, Exception)]
        assert errors, "nobody noticed"
        assert any("is not authentic: someone between the hosts changed it" in text for text in errors)
        right_sums = [result for result in changed if not isinstance(result, Exception)]
        assert all(torch.equal(result[0], right[0][0]) for result in right_sums)
        later = made.each(all_reduce(SUM, torch.float32, 10))
        assert all(isinstance(result, Exception) for result in later)


def test_rejects_ranks_that_permit_clear_traffic_differently() -> None:
    offers = [Offer(digest="1", workers=2, open_gloo=is_open) for is_open in (True, False)]
    error = decide(offers, is_default_group=True).error
    assert "WIRESUM_OPEN_GLOO differs (1 on rank 0, 0 on rank 1)" in str(error)


def test_only_jobs_that_ask_for_protection_have_it() -> None:
    def protection(job: Job, *, is_open: bool = False) -> str:
        made = plan(star(workers=2), job, PlanOptions(engine="udp"))
        return protection_of(made, Settings(open_gloo=is_open))

    assert protection(Job()) == protection(Job(), is_open=True) == ""
    for job in (Job(sealed=True), Job(proven=True)):
        assert protection(job) == "encrypted with the job's keys"
        assert protection(job, is_open=True) == "in the clear, as WIRESUM_OPEN_GLOO permits"
