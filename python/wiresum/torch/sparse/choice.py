"""Which modules of a model are sharded, and which cannot be."""

from __future__ import annotations

from collections.abc import Collection

import torch
from torch import nn
from wiresum.errors import SparseError

Plain = nn.Embedding | nn.EmbeddingBag
PLAIN = (nn.Embedding, nn.EmbeddingBag)
REFUSED = {"max_norm": None, "scale_grad_by_freq": False}
"""Settings, and what they have to be: both change rows or gradients by what one rank alone sees."""
TYPES = (torch.float32, torch.float16, torch.bfloat16)
"""Types of weights that modules have; servers keep rows and step them in float32 whatever the module's type."""


def chosen(model: nn.Module, names: Collection[str] | None) -> dict[str, Plain]:
    """The embeddings of a model by their name in `named_modules()`: all of them, or these.

    Raises:
        SparseError: there is no such module, or one does what servers do not.
    """
    everything = dict(model.named_modules())
    wanted = names if names is not None else [name for name, each in everything.items() if isinstance(each, PLAIN)]
    if not wanted:
        raise SparseError(
            "the model has no embedding to shard; give one with nn.Embedding or nn.EmbeddingBag, or train it as it is"
        )
    found = {}
    for name in wanted:
        module = everything.get(name)
        if not isinstance(module, PLAIN):
            raise SparseError(f"the model has no embedding {name!r}; `model.named_modules()` has the names")
        if problem := _problem(name, module):
            raise SparseError(f"module {name!r} cannot be sharded: {problem}; give the names of others")
        found[name] = module
    return found


def _problem(name: str, module: Plain) -> str | None:
    if not name:
        return "it is the whole model, which cannot be replaced in place"
    if type(module) not in PLAIN:
        return f"it is a {type(module).__name__}, whose forward may be another"
    for field, usual in REFUSED.items():
        if getattr(module, field) != usual:
            return f"it has {field}={getattr(module, field)}, which servers do not know"
    if not module.weight.requires_grad:
        return "its weight is frozen"
    if module.weight.dtype not in TYPES:
        return f"its weight is {module.weight.dtype}, and rows are {', '.join(str(each) for each in TYPES)}"
    return None
