"""FSDP2 on CPUs, whose collectives run beside the computing and beside each other.

    fully_shard(model)
    overlap(model)

FSDP2 overlaps them by the streams of a GPU. A CPU has none: each collective ends before the next thing begins. The
backend does not matter; Gloo gains as well.
"""

from __future__ import annotations

import logging
from typing import Any, TypeVar
from weakref import WeakSet

import torch.distributed as dist
from torch.distributed.fsdp import FSDPModule

from torch import nn
from wiresum.errors import WiresumError
from wiresum.torch.fsdp.internals import BlockInternals, internals_of
from wiresum.torch.fsdp.prefetch import ForwardPrefetch
from wiresum.torch.fsdp.reduction import ReduceScatterAhead, UnderWay

__all__ = ["overlap"]

logger = logging.getLogger("wiresum.torch")

Model = TypeVar("Model", bound=nn.Module)

MOST_REDUCE_SCATTERS = 2
"""Under way at once: the second begins its exchange while the first moves its values."""

_overlapped: WeakSet[nn.Module] = WeakSet()
"""Models that `overlap` has changed; again, it changes nothing."""


def overlap(model: Model, *, most_reduce_scatters: int = MOST_REDUCE_SCATTERS) -> Model:
    """Makes the collectives of a model that is sharded by FSDP2 asynchronous, in place, with the same bits.

    * The parameters of a block are gathered while the block before it computes, forward and backward.
    * A gradient is reduced while the backward pass goes on. All gradients are there when `backward()` returns.

    Where something reads a gradient before that, as when gradients accumulate, its reduction is waited for as without
    this function, and the log says why, once. Of a model that is not on a CPU nothing is changed.

    Args:
        model: after `fully_shard(model)`, before its first step. Call this on all ranks alike.
        most_reduce_scatters: how many may be under way at once. Each keeps a block's unsharded gradients in memory.

    Returns:
        The same model.

    Raises:
        WiresumError: the model is not sharded, or this PyTorch lacks something that this function needs; the message
            names it.
        ValueError: `most_reduce_scatters` is below 1.
    """
    if not isinstance(model, FSDPModule):
        raise WiresumError(
            f"overlap() takes a model that FSDP2 has sharded, and {type(model).__name__} is not; call "
            "fully_shard() on its blocks and then on the model itself, and overlap() after that"
        )
    if most_reduce_scatters < 1:
        raise ValueError(f"most_reduce_scatters is {most_reduce_scatters}; at least 1 must be under way")
    device = next((parameter.device.type for parameter in model.parameters()), "cpu")
    if device != "cpu":
        _say(f"nothing is changed: the model is on {device}, where FSDP2 overlaps its collectives itself")
    elif model not in _overlapped:
        _make_asynchronous(model, most_reduce_scatters)
        _overlapped.add(model)
    return model


def _make_asynchronous(model: FSDPModule, most_reduce_scatters: int) -> None:
    found = internals_of(model)
    found.gather_asynchronously()
    under_way, said = UnderWay(most_reduce_scatters, found.at_end_of_backward), Said()
    for block in found.blocks:
        _reduce_ahead(block, under_way, said)
    ForwardPrefetch(model, [block.module for block in found.blocks])


def _reduce_ahead(block: BlockInternals, under_way: UnderWay, said: Said) -> None:
    if why_not := block.why_not_ahead():
        said.once(why_not)
        return
    ahead: Any = ReduceScatterAhead(block, under_way, said.once)
    block.module.set_custom_reduce_scatter(ahead)


class Said:
    """Reasons for waiting, each of which is logged once."""

    def __init__(self) -> None:
        self._reasons: set[str] = set()

    def once(self, reason: str) -> None:
        """Logs why reduce-scatters are waited for, unless it has been said."""
        if reason not in self._reasons:
            self._reasons.add(reason)
            _say(f"a reduce-scatter of FSDP2 is waited for within the backward pass: {reason}")


def _say(message: str) -> None:
    """On one rank for all."""
    logger.log(logging.WARNING if dist.get_rank() == 0 else logging.DEBUG, "overlap: %s", message)
