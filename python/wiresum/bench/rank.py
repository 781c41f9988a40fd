"""What ranks with common starts share: the groups, the starts, and the view of rank 0."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

import torch.distributed as dist

import torch
from wiresum.bench.sending_rates import INTERFACE, SENT_BYTES_FIELD
from wiresum.bench.start import Starts

T = TypeVar("T")

PATIENCE = timedelta(seconds=120)
"""For each collective: an order of magnitude beyond the slowest that was seen."""
RECEIVED_BYTES_FIELD = 0
"""In a line of /proc/net/dev, after the interface's name."""


@contextmanager
def joined(backend: str, output: str) -> Iterator[tuple[dist.ProcessGroup, Starts]]:
    """Takes part with one thread; RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT say in what.

    Args:
        backend: of the group that sums; Gloo carries everything else.
        output: file for rank 0's view; the starts are agreed on beside it.

    Yields:
        The group that sums, and the common starts.
    """
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    group = member_of(dist.group.WORLD if backend == "gloo" else dist.new_group(backend=backend))
    folder = Path(output).with_suffix(".starts")
    yield group, Starts(folder, dist.get_rank(), dist.get_world_size(), dist.barrier)
    if backend != "gloo":
        dist.destroy_process_group(group)
    dist.destroy_process_group()


@contextmanager
def joined_by_each(backends: Sequence[str], output: str) -> Iterator[tuple[dict[str, dist.ProcessGroup], Starts]]:
    """Takes part as `joined` does, in a group of each backend, for collectives through all of them in turn.

    Yields:
        The groups by backend, and the common starts.
    """
    torch.set_num_threads(1)
    dist.init_process_group("gloo", timeout=PATIENCE)
    groups = {name: member_of(dist.new_group(backend=name, timeout=PATIENCE)) for name in backends}
    folder = Path(output).with_suffix(".starts")
    yield groups, Starts(folder, dist.get_rank(), dist.get_world_size(), dist.barrier)
    for group in groups.values():
        dist.destroy_process_group(group)
    dist.destroy_process_group()


def member_of(group: object) -> dist.ProcessGroup:
    """A group that this process is in."""
    if not isinstance(group, dist.ProcessGroup):
        raise SystemExit("a group was made that this rank is not in; please report this")
    return group


def crossed() -> list[int]:
    """Bytes that this host has sent and received, Ethernet headers included."""
    lines = Path("/proc/net/dev").read_text().splitlines()
    fields = next(line for line in lines if line.lstrip().startswith(f"{INTERFACE}:")).partition(":")[2].split()
    return [int(fields[SENT_BYTES_FIELD]), int(fields[RECEIVED_BYTES_FIELD])]


def worst(seconds: float, before: Sequence[int], starts: Starts) -> dict[str, float]:
    """The slowest rank's seconds, and the busiest rank's bytes since `before`, once all ranks are done.

    A rank may still send what others lack when it has its own results.

    Args:
        seconds: of this rank.
        before: what had `crossed` its link.
        starts: where ranks wait for each other.
    """
    starts.wait()
    up, down = (now - then for now, then in zip(crossed(), before, strict=True))
    most = torch.tensor([seconds, up, down], dtype=torch.float64)
    dist.all_reduce(most, op=dist.ReduceOp.MAX)
    return dict(zip(("seconds", "bytes_up", "bytes_down"), most.tolist(), strict=True))


def by_turns(
    methods: Mapping[str, T], measure: Callable[[T], tuple[float, float]], repeats: int, warmups: int
) -> dict[str, Any]:
    """`seconds` of every method, measured in turns, and the largest of its `errors`; what `measure` gives is both."""
    seconds: dict[str, list[float]] = {name: [] for name in methods}
    errors = dict.fromkeys(methods, 0.0)
    for repeat in range(warmups + repeats):
        for name, method in methods.items():
            elapsed, error = measure(method)
            errors[name] = max(errors[name], error)
            if repeat >= warmups:
                seconds[name].append(elapsed)
    return {"seconds": seconds, "errors": errors}


def account_of(backends: Sequence[str]) -> str:
    """What Wiresum says about where it summed, if it is one of the backends."""
    if "wiresum" not in backends:
        return ""
    import wiresum.torch

    return str(wiresum.torch.report())


def write(output: str, view: Any) -> None:
    """Writes what rank 0 has seen, as JSON."""
    if dist.get_rank() == 0:
        Path(output).write_text(json.dumps(view))
