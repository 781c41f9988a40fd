"""What ranks with common starts share: the groups, the starts, and the view of rank 0."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch.distributed as dist

import torch
from wiresum.bench.start import Starts


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
    group = dist.group.WORLD if backend == "gloo" else dist.new_group(backend=backend)
    if not isinstance(group, dist.ProcessGroup):
        raise SystemExit("this process is not in the group")
    folder = Path(output).with_suffix(".starts")
    yield group, Starts(folder, dist.get_rank(), dist.get_world_size(), dist.barrier)
    if backend != "gloo":
        dist.destroy_process_group(group)
    dist.destroy_process_group()


def write(output: str, view: Any) -> None:
    """Writes what rank 0 has seen, as JSON."""
    if dist.get_rank() == 0:
        Path(output).write_text(json.dumps(view))
