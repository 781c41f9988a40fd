"""Life of a process: forked children, and groups that are made again and again."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch.distributed as dist
from aggregator import aggregator
from world import World

import torch
from wiresum.torch import eight_bits, participation, report

CHILD_LIMIT_S = 60.0
"""Seconds for a child that should need a fraction of one, unless its machine is very busy."""
ENDED = 3
"""The exit status of a child that ends as a program does."""
FORKED = r"this process was forked from rank \d; create a group here"
LARGE = 3000
"""Elements that the network sums, not the packets that open a collective."""
RANKS = 2
GROUPS, SETTLED = 30, 10


def in_child(act: Callable[[], Any]) -> Any:
    """Forks, acts in the child and returns the result of the act; sums go on here meanwhile."""
    ours, theirs = os.pipe()
    child = os.fork()
    if child == 0:
        with contextlib.suppress(BaseException), open(theirs, "w") as pipe:
            json.dump(act(), pipe)
        os._exit(0)
    os.close(theirs)
    for _ in range(3):
        values = torch.full((LARGE,), float(dist.get_rank()))
        dist.all_reduce(values)
        assert values[0] == sum(range(dist.get_world_size()))
    with open(ours) as pipe:
        is_there = select.select([pipe], [], [], CHILD_LIMIT_S)[0]
        if not is_there:
            os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        assert is_there, "the child hangs"
        return json.load(pipe)


def calls(handle: dist.Work) -> dict[str, Callable[[], Any]]:
    """Everything that uses a group."""
    small, ranks = torch.ones(4), dist.get_world_size()
    lists = [torch.ones(4) for _ in range(ranks)]
    rows = torch.eye(4).to_sparse()
    future = handle.get_future()
    return {
        "all_reduce": lambda: dist.all_reduce(torch.ones(LARGE)),
        "small all_reduce": lambda: dist.all_reduce(small),
        "exact all_reduce": lambda: dist.all_reduce(torch.ones(4, dtype=torch.float64)),
        "sparse all_reduce": lambda: dist.all_reduce(rows),
        "8-bit all_reduce": lambda: eight_bits.all_reduce(torch.ones(LARGE)),
        "reduce": lambda: dist.reduce(small, 0),
        "broadcast": lambda: dist.broadcast(small, 0),
        "all_gather": lambda: dist.all_gather(lists, small),
        "gather": lambda: dist.gather(small, lists if dist.get_rank() == 0 else None, 0),
        "scatter": lambda: dist.scatter(small, lists if dist.get_rank() == 0 else None, 0),
        "reduce_scatter": lambda: dist.reduce_scatter(small, lists),
        "all_to_all": lambda: dist.all_to_all_single(torch.ones(ranks), torch.ones(ranks)),
        "objects": lambda: dist.all_gather_object([None] * ranks, "object"),
        "send": lambda: dist.send(small, (dist.get_rank() + 1) % ranks),
        "recv": lambda: dist.recv(small),
        "barrier": dist.barrier,
        "monitored_barrier": dist.monitored_barrier,
        "new_group": dist.new_group,
        "wait": handle.wait,
        "future": future.wait,
        "callback": lambda: future.then(print),
        "report": report,
        "rounds_ahead": participation.rounds_ahead,
        "destroy_process_group": dist.destroy_process_group,
    }


def say(call: Callable[[], Any]) -> str:
    try:
        call()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "no error"


def use_everything() -> dict[str, str]:
    handle = dist.all_reduce(torch.ones(LARGE), async_op=True)
    handle.wait()
    return in_child(lambda: {name: say(call) for name, call in calls(handle).items()})


def test_rejects_every_use_of_a_group_in_a_forked_child(networked: World) -> None:
    for rank, answers in enumerate(networked.run(use_everything)):
        wrong = {name: text for name, text in answers.items() if f"forked from rank {rank}; create a" not in text}
        assert not wrong


def make_own_group() -> list[Any]:
    os.environ.pop("WIRESUM_PLAN")
    with contextlib.suppress(Exception):
        dist.destroy_process_group()
    dist.init_process_group("wiresum", store=dist.HashStore(), rank=0, world_size=1)
    values = torch.ones(LARGE)
    dist.all_reduce(values)
    groups = len(report().groups)
    dist.destroy_process_group()
    return [values.sum().item(), groups]


def own_group() -> list[Any]:
    return in_child(make_own_group)


def test_a_forked_child_creates_its_own_group(networked: World) -> None:
    assert networked.run(own_group) == [[LARGE, 1]] * networked.size


def end_children() -> list[int]:
    """Exit statuses of children that end as programs do: a child, a grandchild and a program."""

    def end(status: int = ENDED) -> None:
        ctypes.pythonapi.Py_Exit(status)  # what Python calls after the last line, or after sys.exit()

    def wait_for(act: Callable[[], None]) -> int:
        child = os.fork()
        if child == 0:
            signal.alarm(int(CHILD_LIMIT_S))
            act()
            os._exit(1)
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

    def end_with_child() -> None:
        end(wait_for(end))

    program = subprocess.run([sys.executable, "-c", ""], preexec_fn=lambda: None, check=False)
    statuses = [wait_for(end), wait_for(end_with_child), program.returncode]
    values = torch.ones(LARGE)
    dist.all_reduce(values)
    assert values[0] == dist.get_world_size()
    return statuses


def test_a_forked_child_ends_as_programs_do(networked: World) -> None:
    assert networked.run(end_children) == [[ENDED, ENDED, 0]] * networked.size


@pytest.fixture(scope="module")
def groupless(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with aggregator(tmp_path_factory.mktemp("groupless"), RANKS) as node:
        environment = {"WIRESUM_PLAN": str(node.plan_file), "WIRESUM_MIN_ELEMENTS": "1", "WIRESUM_LOG": "warning"}
        with World(RANKS, environment, create_group=False) as world:
            yield world


def live_once(port: int, rank: int) -> None:
    dist.init_process_group("wiresum", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=RANKS)
    groups = [None, dist.new_group(backend="gloo"), dist.new_group([0, 1]), dist.new_group([0])]
    for group in groups[: 3 + (rank == 0)]:
        dist.all_reduce(torch.ones(LARGE), group=group)
    dist.destroy_process_group()


def life(port: int) -> dict[str, int]:
    from world import _this_rank

    live_once(port, _this_rank["rank"])
    process = Path("/proc/self")
    return {name: len(list((process / name).iterdir())) for name in ("fd", "task")}


def test_groups_made_again_leave_nothing_open(groupless: World) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    counts = [groupless.run(life, port) for _ in range(GROUPS)]
    for settled, last in zip(counts[SETTLED - 1], counts[-1], strict=True):
        assert last["fd"] <= settled["fd"]
        assert last["task"] <= settled["task"] + 1, "one thread of the last group may be ending"
