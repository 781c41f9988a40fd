"""The same collectives through the group that is tested and through Gloo, by ranks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch.distributed as dist

import torch
from wiresum.torch import report


def compare(results: Callable[[Any], Iterator[torch.Tensor]], counted: str) -> tuple[int, int]:
    """How many results have Gloo's bits, and how many collectives the network has taken for them.

    Args:
        results: of the collectives through a group, one after the other.
        counted: attribute of a group's report with what the network has taken.
    """
    before = getattr(report().groups[0], counted)
    ours = list(results(dist.group.WORLD))
    taken = getattr(report().groups[0], counted) - before
    gloo = dist.new_group(backend="gloo")
    theirs = list(results(gloo))
    dist.destroy_process_group(gloo)
    for mine, reference in zip(ours, theirs, strict=True):
        assert torch.equal(mine, reference)
    return len(ours), taken
