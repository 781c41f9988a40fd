"""Which modules of a model are sharded, and which cannot be."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from torch.nn.utils.parametrize import is_parametrized

import torch
from torch import nn
from wiresum.errors import SparseError
from wiresum.torch.sparse.modules import Plain, Sharded, own_attributes
from wiresum.torch.sparse.owners import Reason, memory, other_owner, wrapper_of

PLAIN = (nn.Embedding, nn.EmbeddingBag)
REFUSED = {"max_norm": None, "scale_grad_by_freq": False}
"""Settings, and what they have to be: both change rows or gradients by what one rank alone sees."""
TYPES = (torch.float32, torch.float16, torch.bfloat16)
"""Types of weights that modules have; servers keep rows and step them in float32 whatever the module's type."""
MARKS = {"_is_hf_initialized"}
"""Attributes of a weight that change no computation: Transformers marks a weight that it has loaded."""


def chosen(model: nn.Module, names: Collection[str] | None) -> dict[str, Plain]:
    """The embeddings of a model by their name in `named_modules()`: all of them, or these.

    Raises:
        SparseError: there is no such module, or a sharded module could not keep a property of one.
    """
    everything = dict(model.named_modules())
    wanted = names if names is not None else [name for name, each in everything.items() if isinstance(each, PLAIN)]
    if not wanted:
        raise SparseError(
            "the model has no embedding to shard; give one with nn.Embedding or nn.EmbeddingBag, or train it as it is"
        )
    modules: dict[str, Plain] = {}
    for name in wanted:
        module = everything.get(name)
        if not isinstance(module, PLAIN):
            raise SparseError(f"the model has no embedding {name!r}; `model.named_modules()` has the names")
        refuse(name, wrapper_of(model, module) or next(_reasons(name, module), None))
        modules[name] = module
    refuse(*other_owner(model, modules))
    return modules


def refuse(name: str, reason: Reason | None) -> None:
    """Raise an error that names the module, if there is a reason against sharding it."""
    if reason is not None:
        remedy = f"{reason.remedy}, or choose" if reason.remedy else "choose"
        raise SparseError(f"module {name!r} cannot be sharded: {reason.problem}; {remedy} other modules with names=")


def _reasons(name: str, module: Plain) -> Iterator[Reason]:
    """Every reason in the module itself. The first one protects the checks after it."""
    if not name:
        yield Reason("it is the whole model, which cannot be replaced in place", "make it a part of a module")
    if is_parametrized(module):
        yield Reason("it has a parametrization, which servers do not know", "remove the parametrization")
    if type(module) not in PLAIN:
        yield Reason(f"it is a {type(module).__name__}, whose forward may be another")
    yield from _contents(module)
    yield from _weight(f"`{name}.weight`", module.weight)
    yield from _settings(module)
    yield from _attributes(module)


def _contents(module: Plain) -> Iterator[Reason]:
    """Parameters, buffers, children and hooks that a sharded module would not have."""
    parts = {
        "parameter": module._parameters.keys() - {"weight"},
        "buffer": module._buffers,
        "child module": module._modules,
    }
    for kind, names in parts.items():
        for name in sorted(names):
            yield Reason(f"it has a {kind} {name!r}, and a table has a weight only", f"remove the {kind}")
    if type(module._parameters.get("weight")) is not nn.Parameter:
        kind = type(module._parameters.get("weight")).__name__
        yield Reason(f"its weight is a {kind}, not an nn.Parameter", "give it an nn.Parameter")
    for name, hooks in vars(module).items():
        if name.endswith("_hooks") and name in vars(nn.Module()) and hooks:
            kind = name.strip("_").removesuffix("s").replace("_", " ")
            yield Reason(f"it has a {kind}, which would be lost", f"register the {kind} after shard_embeddings")


def _weight(name: str, weight: torch.Tensor) -> Iterator[Reason]:
    if not weight.requires_grad:
        yield Reason("its weight is frozen")
    if weight.dtype not in TYPES:
        yield Reason(f"its weight is {weight.dtype}, and rows are {', '.join(str(each) for each in TYPES)}")
    if weight._backward_hooks:
        yield Reason(f"{name} has a gradient hook, which would be lost", "remove the hook")
    if weight._post_accumulate_grad_hooks:
        yield Reason(f"{name} has a post-accumulate-grad hook, which would be lost", "remove the hook")
    if weight.grad is not None:
        yield Reason(f"{name} has a gradient, which would be lost", "step with it, or call `model.zero_grad()`")
    if weight.device.type == "cpu" and weight.untyped_storage().is_shared():
        yield Reason(f"{name} lies in memory that processes share", "copy the weight")
    for attribute in sorted(vars(weight).keys() - MARKS):
        yield Reason(f"{name} has an attribute {attribute!r}, which would be lost", "remove the attribute")
    if not weight.is_meta and memory(weight) is None:
        yield Reason(f"{name} is no dense tensor", "give it a dense weight")


def _settings(module: Plain) -> Iterator[Reason]:
    for field, usual in REFUSED.items():
        if getattr(module, field) != usual:
            yield Reason(f"it has {field}={getattr(module, field)}, which servers do not know")
    shape, settings = [*module.weight.shape], [module.num_embeddings, module.embedding_dim]
    if shape != settings:
        yield Reason(f"its weight is {shape}, and its num_embeddings and embedding_dim are {settings}", "correct them")
    padding = module.padding_idx
    if padding is not None and not (isinstance(padding, int) and 0 <= padding < module.num_embeddings):
        yield Reason(f"its padding_idx={padding} is not a row from 0 on", "correct it")


def _attributes(module: Plain) -> Iterator[Reason]:
    """Attributes of the program go along, except where they replace a part of the plain or of the sharded module."""
    for name in sorted(own_attributes(module).keys() - set(module.__constants__)):
        if hasattr(type(module), name):
            yield Reason(f"its attribute {name!r} replaces a part of the module", "delete the attribute")
        if hasattr(Sharded, name) or name in Sharded.__annotations__:
            yield Reason(f"a sharded module has another attribute {name!r}", "rename the attribute")
