"""Ranks that watch each other where no server does: a dead one is told to all others, and leave is no death."""

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
"""In a rank's process: its watch, and what it was told."""


@pytest.fixture
def world() -> Iterator[World]:
    with World(RANKS, backend="gloo") as world:
        yield world


def begin() -> None:
    store = dist.distributed_c10d._get_default_store()
    told: list[int] = []
    gloo = dist.ProcessGroupGloo(dist.PrefixStore("watched", store), dist.get_rank(), dist.get_world_size())
    _state.update(told=told, watch=Watch(gloo, told.append, extension.load().abort))
    _state["watch"].start()


def told() -> list[int]:
    """What this rank was told, once it was."""
    end_s = time.monotonic() + LIMIT_S
    while not _state["told"] and time.monotonic() < end_s:
        time.sleep(0.01)
    return list(_state["told"])


def said_so_far() -> list[int]:
    time.sleep(QUIET_S)
    return list(_state["told"])


def leave() -> None:
    _state["watch"].close()
    _state["watch"].close()


@pytest.mark.parametrize("victim", range(RANKS))
def test_a_dead_rank_is_told_to_all_others(world: World, victim: int) -> None:
    world.run(begin)
    pid = world.processes[victim].pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    others = [rank for rank in range(RANKS) if rank != victim]
    assert world.run(told, ranks=others) == [[victim]] * len(others)
    world.run(leave, ranks=others)


def test_a_rank_that_takes_leave_is_not_dead(world: World) -> None:
    world.run(begin)
    world.run(leave, ranks=[2])
    assert world.run(said_so_far) == [[]] * RANKS
    world.run(leave, ranks=[0, 1, 3])
    assert world.run(said_so_far) == [[]] * RANKS
