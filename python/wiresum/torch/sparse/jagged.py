"""Inputs that carry their own offsets, like TorchRec's jagged tensors: known by what they have, not by their type."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import torch
from torch import nn
from wiresum.errors import SparseError


@runtime_checkable
class Jagged(Protocol):
    """Bags of one feature, as a TorchRec `JaggedTensor` has them."""

    def values(self) -> torch.Tensor:
        """Indices, one bag after the other."""

    def offsets(self) -> torch.Tensor:
        """Where each bag begins, and where the last one ends."""

    def weights_or_none(self) -> torch.Tensor | None:
        """A weight of each index, if there are weights."""


def prefetch(collection: nn.Module, features: Any) -> None:
    """Prefetches what a collection of bags will look up, as a TorchRec `EmbeddingBagCollection` does.

    Args:
        collection: has `embedding_bags`, modules by name, which `shard_embeddings` has replaced, and
            `embedding_bag_configs()`, each with a `name` and `feature_names`.
        features: has a `Jagged` by the name of each feature, as a `KeyedJaggedTensor`.

    Raises:
        SparseError: the collection is none, or its bags are not sharded.
    """
    bags = getattr(collection, "embedding_bags", None)
    configs = getattr(collection, "embedding_bag_configs", None)
    if bags is None or configs is None:
        raise SparseError(
            f"{type(collection).__name__} is no collection of bags; call `prefetch` of each sharded module"
        )
    for config in configs():
        for feature in config.feature_names:
            bags[config.name].prefetch(features[feature])
