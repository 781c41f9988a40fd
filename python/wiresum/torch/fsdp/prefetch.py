"""Parameters are gathered one block ahead, in the order of the last forward pass.

FSDP2 prefetches by a list that is given to it. The order in which blocks are registered need not be the one in which
they run; and what is gathered for a block that does not run would wait there, and be taken for its parameters later,
when they may have changed. So the order is learned, and what was not used is let go at the end of a forward pass.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from torch.distributed.fsdp import FSDPModule

from torch import nn


class ForwardPrefetch:
    """Begins to gather a block's parameters when the block before it has its own.

    Backwards FSDP2 itself knows the order: it reverses that of the forward pass.

    Args:
        root: whose forward pass it is.
        blocks: all that are sharded by themselves, the root among them.
    """

    def __init__(self, root: FSDPModule, blocks: Sequence[FSDPModule]) -> None:
        self._following: dict[FSDPModule, FSDPModule] = {}
        self._ran: list[FSDPModule] | None = None
        """Blocks of the forward pass that is going on; none where none is, as while a backward pass recomputes."""
        _module(root).register_forward_pre_hook(self._begin, prepend=True)
        for block in blocks:
            _module(block).register_forward_pre_hook(self._gather_following)
        _module(root).register_forward_hook(self._end)

    def _begin(self, _root: nn.Module, _arguments: Any) -> None:
        self._ran = []

    def _gather_following(self, block: Any, _arguments: Any) -> None:
        """After FSDP2's own hook, which has waited for the block's parameters."""
        if self._ran is None:
            return
        self._ran.append(block)
        if following := self._following.get(block):
            following.unshard(async_op=True)

    def _end(self, _root: nn.Module, _arguments: Any, _output: Any) -> None:
        ran, self._ran = self._ran or [], None
        for block in self._unused(ran):
            block.unshard()
            block.reshard()
        # What follows a block that runs several times is not the same each time.
        self._following = {block: following for block, following in pairwise(ran) if ran.count(block) == 1}

    def _unused(self, ran: Sequence[FSDPModule]) -> list[FSDPModule]:
        """Blocks that were gathered in this pass and did not run after that."""
        gathered = [(index, self._following.get(block)) for index, block in enumerate(ran)]
        return [block for index, block in gathered if block is not None and block not in ran[index + 1 :]]


def _module(block: FSDPModule) -> nn.Module:
    """The same object: FSDP2 adds its class to that of a module."""
    assert isinstance(block, nn.Module)
    return block
