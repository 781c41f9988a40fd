"""What FSDP2 has no public names for, in one place, and looked for by name before it is used."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch.distributed as dist
from torch.autograd import Variable
from torch.distributed.fsdp import FSDPModule

import torch
from torch import nn
from wiresum.errors import WiresumError

KNOWN = "2.15"
"""The PyTorch that this was written for."""
DEFAULT_COMMUNICATION = "DefaultReduceScatter"
NO_BACKWARD = -1
"""The number of the graph task where none runs."""


@dataclass(frozen=True)
class BlockInternals:
    """A module that is sharded by itself.

    Attributes:
        module: with the methods of FSDP2.
        groups: its parameters, by mesh; none where others have all of them: modules within it, or one that it was
            sharded together with.
    """

    module: FSDPModule
    groups: list[Any]

    def why_not_ahead(self) -> str | None:
        """Why its reduce-scatters are left as they are, or None."""
        if len(self.groups) > 1:
            return "a module has parameters on several meshes, for which FSDP2 takes no reduce-scatter from outside"
        if any(type(group._reduce_scatter_comm).__name__ != DEFAULT_COMMUNICATION for group in self.groups):
            return "a module has a reduce-scatter of its own, which is left to it"
        return None

    def reader(self, dtype: torch.dtype, op: Any) -> str | None:
        """Who reads the result of a reduce-scatter before the end of the backward pass, or None.

        Args:
            dtype: of the result.
            op: of the reduce-scatter.
        """
        return next((reason for group in self.groups if (reason := _reader(group, dtype, op))), None)


@dataclass(frozen=True)
class ModelInternals:
    """A model after `fully_shard`, and all within it that is sharded by itself."""

    model: FSDPModule
    blocks: list[BlockInternals]

    def gather_asynchronously(self) -> None:
        """All-gathers return at once, and FSDP2 waits for them before a module computes."""
        self.model._set_unshard_async_op(True)

    def at_end_of_backward(self, call: Callable[[], None]) -> bool:
        """Has something called when the backward pass that is going on ends; false, and never, where none is."""
        if torch._C._current_graph_task_id() == NO_BACKWARD:
            return False
        Variable._execution_engine.queue_callback(call)
        return True


def internals_of(model: FSDPModule) -> ModelInternals:
    """What is behind a sharded model.

    Raises:
        WiresumError: this PyTorch lacks one of the names; the message has it.
    """
    _require(Variable, "_execution_engine")
    _require(Variable._execution_engine, "queue_callback")
    _require(torch._C, "_current_graph_task_id")
    assert isinstance(model, nn.Module)
    seen: set[Any] = set()
    return ModelInternals(model, [_block(each, seen) for each in model.modules() if isinstance(each, FSDPModule)])


def _block(module: FSDPModule, seen: set[Any]) -> BlockInternals:
    _require(module, "_get_fsdp_state", "_set_unshard_async_op", "set_custom_reduce_scatter")
    state: Any = module._get_fsdp_state()
    if state in seen:
        return BlockInternals(module, [])
    seen.add(state)
    _require(state, "_fsdp_param_groups")
    for group in state._fsdp_param_groups:
        _require(group, "fsdp_params", "_is_hsdp", "_all_reduce_hook", "_reduce_scatter_comm")
        for parameter in group.fsdp_params:
            _require(parameter, "sharded_param", "sharded_grad_dtype")
            _require(parameter.sharded_param, "_post_accumulate_grad_hooks")
    return BlockInternals(module, state._fsdp_param_groups)


def _require(owner: Any, *names: str) -> None:
    if missing := next((name for name in names if not hasattr(owner, name)), None):
        owner_name = getattr(owner, "__name__", type(owner).__name__)
        raise WiresumError(
            f"overlap() was written for PyTorch {KNOWN}, and {owner_name} of PyTorch {torch.__version__} has no "
            f"{missing}; train without overlap(), or with PyTorch {KNOWN}"
        )


def _reader(group: Any, dtype: torch.dtype, op: Any) -> str | None:
    if group._is_hsdp:
        return "its result is summed between replicas"
    if group._all_reduce_hook is not None:
        return "an all-reduce hook gets its result"
    if op == dist.ReduceOp.SUM:
        return "its result is divided, as with float16"
    return next((reason for each in group.fsdp_params if (reason := _reader_of_gradient(each, dtype))), None)


def _reader_of_gradient(parameter: Any, dtype: torch.dtype) -> str | None:
    wanted = parameter.sharded_grad_dtype
    if wanted is not None and wanted != dtype:
        return f"its result, {dtype}, becomes a gradient of {wanted}"
    if parameter.sharded_param.grad is not None:
        return "it is added to a gradient that is there, as when gradients accumulate or are set to zero"
    if parameter.sharded_param._post_accumulate_grad_hooks:
        return "a hook gets the gradient when it has accumulated"
    return None
