"""Other owners of a module that is to be sharded, or of its weight: they would keep the old rows and train apart."""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from logging import Logger
from types import CodeType, FrameType, FunctionType, ModuleType
from typing import Any

import numpy as np
from torch.distributed.fsdp import FSDPModule, FullyShardedDataParallel
from torch.nn.parallel import DataParallel, DistributedDataParallel

import torch
from torch import nn
from wiresum.torch.sparse.modules import Plain

WRAPPERS = (DistributedDataParallel, DataParallel, FullyShardedDataParallel, FSDPModule)
"""They hold on to the parameters that a model has when they wrap it."""
LISTS = ("_parameters", "_buffers", "_modules")
"""Attributes of a module that `named_parameters()` and the like look into."""
OWNED = (nn.Module, torch.Tensor, np.ndarray)
"""Types of objects that can be a module or have the memory of its weight."""
NOT_SEARCHED = (
    str,
    bytes,
    int,
    float,
    complex,
    type(None),
    type,
    ModuleType,
    CodeType,
    FrameType,
    Logger,
    torch.Tensor,
)
"""They hold no module, or lead out of the model to the whole program."""

COMPILER = "torch._dynamo"
"""Its objects know every module of the program."""


@dataclass(frozen=True)
class Reason:
    """Why a module cannot be sharded.

    Attributes:
        problem: property that a sharded module could not keep.
        remedy: action that removes the problem; empty if only another choice of modules does.
    """

    problem: str
    remedy: str = ""


@dataclass(frozen=True)
class Reference:
    """One object holds another.

    Attributes:
        holder: object that holds.
        path: name of the held object, as Python code in the model would have it.
        held: the other object.
        part: list of a module whose entry it is, such as `_modules`; empty for any other reference.
    """

    holder: object
    path: str
    held: object
    part: str = ""

    @property
    def place(self) -> str:
        """The name for messages. Inside a list or an object, this is the attribute's name."""
        return f"`{self.path}`" if isinstance(self.holder, nn.Module) else f"in `{self.path}`"


def wrapper_of(model: nn.Module, module: nn.Module) -> Reason | None:
    """Find a part of a model that wraps a module for parallel training."""
    for path, each in model.named_modules():
        if issubclass(type(each), WRAPPERS) and any(inner is module for inner in each.modules()):
            return _wrapped(each, f"`{path}`" if path else "the model")
    return None


def other_owner(model: nn.Module, modules: Mapping[str, Plain]) -> tuple[str, Reason | None]:
    """Find a second owner inside a model.

    Args:
        model: whose attributes are searched, and all objects that they hold.
        modules: to be sharded, by name.

    Returns:
        Name of the module that has another owner, and the owner; no reason if every module belongs to the model only.
    """
    inside = {id(each) for each in model.modules()}
    for reference in _references(model):
        if not issubclass(type(reference.held), OWNED):
            continue
        for name, module in modules.items():
            if reason := _claim(name, module, reference, inside):
                return name, reason
    return "", None


def outside_owner(model: nn.Module, modules: Mapping[str, Plain]) -> tuple[str, Reason | None]:
    """Find a living optimizer or a module outside of the model that has a weight or a module, as `other_owner` does."""
    if next(_outside_owners(model, modules), None):
        gc.collect()  # an owner that nobody can reach does not count
    return next(_outside_owners(model, modules), ("", None))


def memory(each: object) -> tuple[torch.device, int, int] | None:
    """Device of a tensor or array, its first address, and the one after its last; None if that cannot be said."""
    if isinstance(each, np.ndarray):
        return torch.device("cpu"), *np.lib.array_utils.byte_bounds(each)
    if not isinstance(each, torch.Tensor) or each.layout != torch.strided or each.is_meta or not each.numel():
        return None
    try:
        begin = each.data_ptr()
    except RuntimeError:  # a tensor without memory, such as a functional one
        return None
    last = sum((size - 1) * stride for size, stride in zip(each.shape, each.stride(), strict=True))
    return each.device, begin, begin + (last + 1) * each.element_size()


def _wrapped(wrapper: nn.Module, place: str) -> Reason:
    kind = next(each.__name__ for each in WRAPPERS if isinstance(wrapper, each))
    return Reason(f"{place} is a {kind}, which has its parameters", "call shard_embeddings before the model is wrapped")


def _claim(name: str, module: Plain, reference: Reference, inside: set[int]) -> Reason | None:
    held, place = reference.held, reference.place
    if held is module and not (reference.part == "_modules" and id(reference.holder) in inside):
        return Reason(f"`{name}` is also {place}", "remove the other reference")
    if held is module.weight and not (reference.part == "_parameters" and reference.holder is module):
        return Reason(f"`{name}.weight` is also {place}", "use a copy there")
    if held is not module.weight and _overlap(memory(held), memory(module.weight)):
        return Reason(f"`{name}.weight` shares its memory with `{reference.path}`", "use a copy there")
    return None


def _overlap(one: tuple[torch.device, int, int] | None, other: tuple[torch.device, int, int] | None) -> bool:
    return bool(one and other and one[0] == other[0] and one[1] < other[2] and other[1] < one[2])


def _references(model: nn.Module) -> Iterator[Reference]:
    """Every reference that leads from a model to an object, however deep."""
    visited: dict[int, object] = {id(model): model}  # the objects stay alive, so that no other one gets their id
    to_search = [("", model)]
    while to_search:
        path, holder = to_search.pop()
        for reference in _held_by(path, holder):
            yield reference
            held: Any = reference.held
            if id(held) not in visited and _is_searched(held):
                visited[id(held)] = held
                to_search.append((reference.path, held))


def _is_searched(held: object) -> bool:
    kind = type(held)  # isinstance() would ask a proxy for the class of its object
    if issubclass(kind, nn.Module):
        return True
    origin = str(held.__module__ if issubclass(kind, FunctionType) else kind.__module__)
    return not issubclass(kind, NOT_SEARCHED) and not origin.startswith(COMPILER)


def _held_by(path: str, holder: object) -> Iterator[Reference]:
    if isinstance(holder, nn.Module):
        yield from _held_by_module(path, holder)
    else:
        yield from (Reference(holder, path, held) for held in _referents(holder))


def _held_by_module(path: str, module: nn.Module) -> Iterator[Reference]:
    prefix = f"{path}." if path else ""
    for name, value in vars(module).items():
        if name not in LISTS:
            yield Reference(module, prefix + name, value)
            continue
        for key, held in value.items():
            yield Reference(module, prefix + key, held, name)


def _referents(holder: object) -> Iterable[object]:
    if isinstance(holder, FunctionType):  # its globals are those of the program
        return [holder.__closure__, holder.__defaults__, holder.__kwdefaults__, vars(holder)]
    if isinstance(holder, dict) and "__builtins__" in holder:
        return []
    return gc.get_referents(holder)


def _outside_owners(model: nn.Module, modules: Mapping[str, Plain]) -> Iterator[tuple[str, Reason]]:
    inside = {id(each) for each in model.modules()}
    for each in gc.get_objects():
        kind = type(each)
        if issubclass(kind, torch.optim.Optimizer):
            yield from _of_optimizer(each, modules)
        elif issubclass(kind, nn.Module) and id(each) not in inside:
            yield from _of_module(each, modules)


def _of_optimizer(optimizer: torch.optim.Optimizer, modules: Mapping[str, Plain]) -> Iterator[tuple[str, Reason]]:
    groups = vars(optimizer).get("param_groups", [])
    parameters = {id(each) for group in groups for each in group["params"]}
    for name, module in modules.items():
        if id(module.weight) in parameters:
            problem = f"an optimizer ({type(optimizer).__name__}) already has `{name}.weight`"
            yield name, Reason(problem, "create it after shard_embeddings")


def _of_module(owner: nn.Module, modules: Mapping[str, Plain]) -> Iterator[tuple[str, Reason]]:
    parts = {id(each): key for each_list in LISTS for key, each in (vars(owner).get(each_list) or {}).items()}
    if isinstance(owner, WRAPPERS):
        parts = {id(each): key for key, each in owner.named_parameters()}
    for name, module in modules.items():
        for part, what in ((module, name), (module.weight, f"{name}.weight")):
            if id(part) not in parts:
                continue
            if isinstance(owner, WRAPPERS):
                yield name, _wrapped(owner, "a module outside of the model")
            place = f"`{parts[id(part)]}` of a {type(owner).__name__} outside of the model"
            yield name, Reason(f"`{what}` is also {place}", "shard the module that has both")
