"""Jobs that leave the network after they have begun: each collective is summed once, however far ranks were."""

from __future__ import annotations

import ctypes
import random
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest
import torch.distributed as dist
from mock_engine import (
    ABI_VERSION,
    ALL_REDUCE,
    CAPSULE_NAME,
    NO_SHARES,
    NOT_FINITE,
    OK,
    REDUCE,
    REDUCE_SCATTER,
    Abi,
    Collective,
    Submit,
    Tail,
    _memory,
)

import torch
from wiresum.torch import extension

NOT_SERVED = 7
LENGTH = 12
"""Elements of a tensor: a multiple of all numbers of ranks."""
TAIL = ((3, 5), (8, LENGTH))
"""Elements of an all-reduce, in the engines here, that a rank may lack which is not as far as another one."""
MARK = 1000.0
"""What the network's sums have more than Gloo's, so that the two can be told apart."""
TIMEOUT = timedelta(seconds=20)


@dataclass
class Engine:
    """An engine that does nothing by itself: a test says how each collective ends, in order."""

    open: list[Collective] = field(default_factory=list)
    is_stopped: bool = False
    largest_share: int = NO_SHARES

    def __post_init__(self) -> None:
        self._submit = Submit(self._take)
        self._tail = Tail(self._write_tail)
        self._abi = Abi(ABI_VERSION, None, self._submit, self.largest_share, 0, 0, self._tail)

    def capsule(self) -> object:
        new = ctypes.pythonapi.PyCapsule_New
        new.restype, new.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
        return new(ctypes.addressof(self._abi), CAPSULE_NAME, None)

    def _take(self, _engine: object, collective: Any) -> int:
        self.open.append(Collective.from_buffer_copy(collective.contents))
        if self.is_stopped:
            self.end(NOT_SERVED)
        return 0

    @staticmethod
    def _write_tail(_engine: object, elements: int, _type: int, _bits: int, spans: Any, room: int) -> int:
        tail = TAIL if elements == LENGTH else ((0, elements),)
        for at, (start, end) in enumerate(tail[:room]):
            spans[at].start, spans[at].end = start, end
        return len(tail)

    def end(self, outcome: int, results: torch.Tensor | None = None, place: int = 0) -> None:
        one = self.open.pop(place)
        if results is not None:
            _memory(one.sink, len(results), results.dtype).copy_(results)
        if outcome == OK and one.aside and one.kind != ALL_REDUCE:
            _memory(one.aside, one.elements, torch.float32).copy_(_memory(one.source, one.elements, torch.float32))
        one.done(one.context, outcome, b"the light is gone")

    def stop(self, results: Sequence[torch.Tensor] = ()) -> None:
        """Ends all that is open; its first all-reduces have these results, but for some of the tail."""
        self.is_stopped = True
        known = list(results)
        while self.open:
            one = self.open[0]
            if one.aside:
                self._set_aside(one, known.pop(0) if known and one.kind == ALL_REDUCE else None)
            if one.elements and not (one.aside and one.sink == one.source):
                # It had some of the results.
                _memory(one.sink, 1, torch.float32).fill_(-1.0)
            self.end(NOT_SERVED)

    @staticmethod
    def _set_aside(one: Collective, results: torch.Tensor | None) -> None:
        aside = _memory(one.aside, one.elements, torch.float32).fill_(-1.0)
        if results is not None:
            aside.copy_(results)
            # All of the tail is missing but the last element.
            for start, end in TAIL:
                aside[start : min(end, LENGTH - 1)] = -1.0


@dataclass
class Rank:
    rank: int
    size: int
    engine: Engine
    backend: Any

    def begin_share(self, mine: torch.Tensor) -> Any:
        """Begins a share, or a barrier without one."""
        if not len(mine):
            return self.backend.barrier()
        options = dist.AllreduceOptions()
        options.reduceOp = dist.ReduceOp.BOR
        return self.backend.allreduce([mine], options)

    def begin(self, kind: int, root: int, values: torch.Tensor) -> tuple[Any, torch.Tensor]:
        """Begins a collective: its handle, and where the results will be."""
        mine = values.clone()
        if kind == ALL_REDUCE:
            return self.backend.allreduce([mine]), mine
        if kind == REDUCE:
            return self.backend.reduce(mine, root), mine
        part = torch.empty(LENGTH // self.size)
        return self.backend.reduce_scatter([part], [list(mine.chunk(self.size))]), part


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(4) as made:
        yield made


def ranks(size: int, pool: ThreadPoolExecutor, largest_share: int = NO_SHARES, *replay_bytes: int) -> list[Rank]:
    store = dist.HashStore()
    native = extension.load()

    def gloo(prefix: str, rank: int) -> Any:
        return dist.ProcessGroupGloo(dist.PrefixStore(prefix, store), rank, size, TIMEOUT)

    def make(rank: int) -> Rank:
        inner, fallback, afterwards = (gloo(prefix, rank) for prefix in ("inner", "fallback", "afterwards"))
        engine = Engine(largest_share=largest_share)
        backend = native.connected(
            inner, fallback, TIMEOUT, engine.capsule(), 1, 4, 4, False, lambda: inner, lambda: None, afterwards,
            replay_bytes[0] if replay_bytes else None, print, print,
        )  # fmt: skip
        return Rank(rank, size, engine, backend)

    return list(pool.map(make, range(size)))


def taken(kind: int, root: int, one: Rank, whole: torch.Tensor) -> torch.Tensor | None:
    """What a rank takes of the results."""
    if kind == REDUCE_SCATTER:
        return whole.chunk(one.size)[one.rank]
    return whole if kind == ALL_REDUCE or one.rank == root else None


@pytest.mark.parametrize("seed", range(24))
def test_each_collective_is_summed_once_wherever_ranks_were(pool: ThreadPoolExecutor, seed: int) -> None:
    """Some ranks have the network's results of some collectives. All others get those, or Gloo's where none has any."""
    chance = random.Random(seed)
    size = chance.choice((2, 3, 4))
    bed = ranks(size, pool)
    total = chance.randint(1, 6)
    kinds = [chance.choice((ALL_REDUCE, ALL_REDUCE, REDUCE, REDUCE_SCATTER)) for _ in range(total + 2)]
    roots = [chance.randrange(size) for _ in kinds]
    outcomes = [chance.choice((OK, OK, OK, NOT_FINITE)) for _ in range(total)]
    values = [[torch.randint(0, 9, (LENGTH,)).float() for _ in bed] for _ in kinds]
    wholes = [torch.stack(given).sum(0) for given in values]
    ended = [chance.randint(0, total) for _ in bed]
    works: list[list[tuple[Any, torch.Tensor]]] = [[] for _ in bed]
    for one in bed:
        for number in range(total):
            works[one.rank].append(one.begin(kinds[number], roots[number], values[number][one.rank]))
    for one in bed:
        for number in range(ended[one.rank]):
            results = taken(kinds[number], roots[number], one, wholes[number] + MARK)
            one.engine.end(outcomes[number], results if outcomes[number] == OK else None)
    furthest = max(ended)
    for one in chance.sample(bed, size):
        lacked = range(ended[one.rank], furthest)
        one.engine.stop([wholes[number] + MARK for number in lacked if kinds[number] == ALL_REDUCE])
        one.backend.leave()
    for one in bed:
        for number in range(total, total + 2):
            works[one.rank].append(one.begin(kinds[number], roots[number], values[number][one.rank]))
    list(pool.map(lambda rank: [work.wait() for work, _ in works[rank]], range(size)))
    for number, kind in enumerate(kinds):
        for one in bed:
            is_networks = number < (furthest if kind == ALL_REDUCE else ended[one.rank]) and outcomes[number] == OK
            wanted = taken(kind, roots[number], one, wholes[number] + MARK * is_networks)
            found = works[one.rank][number][1]
            assert wanted is None or torch.equal(found, wanted), (number, kind, one.rank, ended, outcomes)
    list(pool.map(lambda one: one.backend.shutdown(), bed))


def test_a_rank_with_nothing_under_way_gives_its_results_before_it_goes(pool: ThreadPoolExecutor) -> None:
    """It has ended its last collective and closes the group; the other one still lacks the results."""
    one, other = bed = ranks(2, pool)
    works = [rank.begin(ALL_REDUCE, 0, torch.ones(LENGTH)) for rank in bed]
    one.engine.end(OK, torch.full((LENGTH,), 2.0 + MARK))
    works[0][0].wait()
    works[0][1].zero_()
    one.engine.stop()
    one.backend.leave()
    closing = pool.submit(one.backend.shutdown)
    other.engine.stop([torch.full((LENGTH,), 2.0 + MARK)])
    works[1][0].wait()
    closing.result()
    assert torch.equal(works[1][1], torch.full((LENGTH,), 2.0 + MARK))
    assert extension.load().reason_of(works[1][0]) == "summed"


def test_a_rank_that_has_gone_is_an_error_that_says_why_the_job_left(pool: ThreadPoolExecutor) -> None:
    one, other = ranks(2, pool)
    work, _ = other.begin(ALL_REDUCE, 0, torch.ones(LENGTH))
    one.backend.abort()
    one.backend = None
    other.engine.stop()
    with pytest.raises(RuntimeError, match=r"the light is gone; the ranks could not go over to Gloo: .*"):
        work.wait()


def test_what_is_kept_for_others_has_a_bound(pool: ThreadPoolExecutor) -> None:
    """A rank that is further behind than any window lets it be gets an error, and so do all."""
    large = (64 << 20) // 4
    bed = ranks(2, pool)
    sizes = [LENGTH, large + LENGTH, LENGTH, LENGTH]
    works = [[rank.begin(ALL_REDUCE, 0, torch.ones(size)) for size in sizes] for rank in bed]
    for size in sizes[:3]:
        bed[0].engine.end(OK, torch.full((size,), 2.0))
    for rank in bed:
        rank.engine.stop()
    for rank in bed:
        with pytest.raises(RuntimeError, match="a rank has no result of collective 0"):
            works[rank.rank][3][0].wait()


SHARES = 64
"""Bytes of the largest share here."""
REPLAY = 1 << 20
SUM, SHARE, BARRIER = "sum", "share", "barrier"


def passed(number: int, rank: int) -> torch.Tensor:
    """Bits of a share that say who passed it, and as which collective."""
    return torch.tensor([1 << rank, (number + 1) << (8 * rank)])


@pytest.mark.parametrize("seed", range(24))
def test_each_share_is_reduced_once_wherever_ranks_were(pool: ThreadPoolExecutor, seed: int) -> None:
    """Shares end in one order, but before sums that were given earlier; sums end when all before them have."""
    chance = random.Random(seed)
    size = chance.choice((2, 3, 4))
    bed = ranks(size, pool, SHARES, REPLAY)
    what = [chance.choice((SUM, SHARE, SHARE, BARRIER)) for _ in range(chance.randint(1, 12))]
    given = [[passed(n, rank)[: 0 if kind == BARRIER else None] for n, kind in enumerate(what)] for rank in range(size)]
    sums = [[torch.full((LENGTH,), float(n)) for n, _ in enumerate(what)] for _ in bed]

    def begin(one: Rank, number: int) -> Any:
        mine = sums[one.rank][number]
        return one.backend.allreduce([mine]) if what[number] == SUM else one.begin_share(given[one.rank][number])

    works = [[begin(one, number) for number, _ in enumerate(what)] for one in bed]
    before = [[mine.clone() for mine in row] for row in given]
    ended: list[set[int]] = []
    for one in bed:
        shares = [n for n, kind in enumerate(what) if kind != SUM]
        reached = shares[: chance.randint(0, len(shares))]
        open_share = next((n for n in shares if n not in reached), len(what))
        summed = [n for n, kind in enumerate(what) if kind == SUM and n < open_share]
        done = [*reached, *summed[: chance.randint(0, len(summed))]]
        for place, n in enumerate(done):
            now = n - sum(earlier < n for earlier in done[:place])
            network = torch.full((LENGTH,), float(n * size) + MARK)
            shared = torch.cat([row[n] for row in before])
            one.engine.end(OK, network if what[n] == SUM else shared if len(shared) else None, now)
        ended.append(set(done))
    for one in chance.sample(bed, size):
        lacked = [n for n, kind in enumerate(what) if kind == SUM and n not in ended[one.rank]]
        one.engine.stop([torch.full((LENGTH,), float(n * size) + MARK) for n in lacked])
        one.backend.leave()
    list(pool.map(lambda row: [work.wait() for work in row], works))
    native = extension.load()
    for number, kind in enumerate(what):
        is_networks = any(number in done for done in ended)
        for one in bed:
            reason = native.reason_of(works[one.rank][number])
            if kind == SUM:
                assert sums[one.rank][number].eq(number * size + MARK * is_networks).all()
                assert reason == ("summed" if is_networks else "not_served")
                continue
            assert reason == ("shared" if is_networks else "not_served")
            if kind == SHARE:
                bits = [sum(int(row[number][word]) for row in before) for word in range(2)]
                assert given[one.rank][number].tolist() == bits
    list(pool.map(lambda one: one.backend.shutdown(), bed))


def test_a_share_that_was_not_kept_is_an_error_that_says_what_would_do(pool: ThreadPoolExecutor) -> None:
    bed = ranks(2, pool, SHARES, 4)
    shares = [passed(0, rank.rank) for rank in bed]
    works = [rank.begin_share(share) for rank, share in zip(bed, shares, strict=True)]
    bed[0].engine.end(OK, torch.cat(shares))
    for rank in bed:
        rank.engine.stop()
        rank.backend.leave()
    works[0].wait()
    with pytest.raises(RuntimeError, match=r"no result of small collective 0, .*WIRESUM_REPLAY=16 would"):
        works[1].wait()
