"""The ring of a group's ranks: a rank that has left is told to all others, and ends what waits for that rank."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from typing import Any

import pytest
import torch.distributed as dist
from world import World

from wiresum.torch import extension
from wiresum.torch.watch import Watch

RANKS = 4
LIMIT_S = 20.0
QUIET_S = 0.5
"""Seconds in which a wrong alarm would have gone around."""
_state: dict[str, Any] = {}
"""In a rank's process: its watch, and what the watch has told."""


@pytest.fixture
def world() -> Iterator[World]:
    with World(RANKS, backend="gloo") as world:
        yield world


def begin(rounds: int = 0) -> None:
    """Start a watch of a group that has ended so many collectives."""
    store = dist.distributed_c10d._get_default_store()
    gloo = dist.ProcessGroupGloo(dist.PrefixStore("watched", store), dist.get_rank(), dist.get_world_size())
    native = extension.load()
    told: list[Any] = []

    def tell(stalled: Any) -> bool:
        told.append((stalled.ranks, stalled.number, stalled.was_told))
        return False

    watch = Watch(gloo, native.Progress(), native.abort, misses_the_silent=True)
    watch.start(tell)
    _state.update(told=told, watch=watch)
    for _ in range(rounds):
        watch.progress.end(watch.progress.begin(), True)


def wait_in_a_collective() -> list[Any]:
    """Begin a collective that no rank ends, and return what the watch tells of that."""
    _state["watch"].progress.begin()
    end_s = time.monotonic() + LIMIT_S
    while not _state["told"] and time.monotonic() < end_s:
        time.sleep(0.01)
    return list(_state["told"])


def told_so_far() -> list[Any]:
    time.sleep(QUIET_S)
    return list(_state["told"])


def leave() -> None:
    _state["watch"].close()
    _state["watch"].close()


@pytest.mark.parametrize("victim", range(RANKS))
def test_tells_all_others_of_a_killed_rank(world: World, victim: int) -> None:
    world.run(begin)
    pid = world.processes[victim].pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    others = [rank for rank in range(RANKS) if rank != victim]
    assert world.run(told_so_far, ranks=others) == [[]] * len(others), "nobody needs the rank"
    assert world.run(wait_in_a_collective, ranks=others) == [[([victim], 0, False)]] * len(others)
    world.run(leave, ranks=others)


def test_tells_of_ranks_that_leave_one_after_the_other(world: World) -> None:
    """The ring closes around a rank that has left, so that those behind it are heard of."""
    world.run(begin, 3)
    for rank in (2, 3):
        world.run(leave, ranks=[rank])
        assert world.run(told_so_far) == [[]] * RANKS, "nobody waits"
    assert world.run(wait_in_a_collective, ranks=[0, 1]) == [[([2, 3], 3, True)]] * 2
    world.run(leave, ranks=[0, 1])
    assert all(len(told) < 2 for told in world.run(told_so_far))
