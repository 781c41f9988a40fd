"""`nn.Embedding` and `nn.EmbeddingBag` without their weight: rows come from servers, and gradients go there."""

from __future__ import annotations

from typing import Any

import numpy as np
from torch.nn import functional

import torch
from torch import nn
from wiresum.errors import SparseError
from wiresum.torch.sparse.jagged import Jagged
from wiresum.torch.sparse.rows import Keys, Rows

EXPORTED_AT_ONCE = 1 << 16
"""Rows of a table that are pulled together for a `state_dict`: some 4 MB of 16 values each."""


class Sharded(nn.Module):
    """What both modules have in common.

    Attributes:
        table: name of its table.
        num_embeddings: rows of the table.
        embedding_dim: values of a row.
        padding_idx: a row that is zeros, and has no gradient; None if there is none.
    """

    def __init__(self, plain: nn.Embedding | nn.EmbeddingBag, table: str, rows: Rows) -> None:
        super().__init__()
        self.table = table
        self.num_embeddings = plain.num_embeddings
        self.embedding_dim = plain.embedding_dim
        self.padding_idx = plain.padding_idx
        self._rows = rows

    def prefetch(self, input: torch.Tensor | Jagged) -> None:
        """Has the rows of the next forward's input pulled as soon as the step under way is over.

        The next forward takes them if it looks up the same rows, and pulls its own otherwise. With a delay of d the
        input is that of the forward d steps later, which needs them.
        """
        indices = input if isinstance(input, torch.Tensor) else input.values()
        self._rows.prefetch(self.table, self._pulled(self._keys(indices)[0]))

    def looked_up(self, input: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, int | None]:
        """The rows of an input, where each of its elements is among them, and where the padding is.

        Raises:
            SparseError: an element is no row of the table.
        """
        keys, places = self._keys(input)
        pulled = self._rows.pull(self.table, self._pulled(keys))
        padding = keys.tolist().index(self.padding_idx) if self.padding_idx in keys.tolist() else None
        if padding is not None or not len(keys):  # an input without elements still needs a row
            zeros = pulled.new_zeros(1, self.embedding_dim)
            before = padding or 0
            pulled = torch.cat([pulled[:before], zeros, pulled[before:]])
        return pulled.to(input.device), places, padding

    def _keys(self, input: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        keys, places = torch.unique(input, return_inverse=True)
        if len(keys) and not 0 <= int(keys[0]) <= int(keys[-1]) < self.num_embeddings:
            wrong = int(keys[0]) if keys[0] < 0 else int(keys[-1])
            raise SparseError(
                f"table {self.table}: index {wrong} is out of range for {self.num_embeddings} rows; look up only what "
                "is in the table, or enlarge it"
            )
        return keys.cpu(), places

    def _pulled(self, keys: torch.Tensor) -> Keys:
        array: Keys = keys.numpy().astype(np.int64)
        return array if self.padding_idx is None else array[array != self.padding_idx]

    def _save_to_state_dict(self, destination: dict[str, Any], prefix: str, keep_vars: bool) -> None:
        """All rows, under the name that the plain module has for them."""
        with torch.no_grad():
            starts = range(0, self.num_embeddings, EXPORTED_AT_ONCE)
            inputs = (torch.arange(start, min(start + EXPORTED_AT_ONCE, self.num_embeddings)) for start in starts)
            destination[f"{prefix}weight"] = torch.cat([self.looked_up(each)[0] for each in inputs])

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *others: Any) -> None:
        if f"{prefix}weight" in state_dict:
            errors: list[str] = others[-1]
            errors.append(
                f"{prefix}weight: the rows of a sharded module live at servers, which begin from their own snapshots; "
                "leave it out of what is loaded"
            )

    def extra_repr(self) -> str:
        """Its settings, for `print`."""
        return f"{self.num_embeddings}, {self.embedding_dim}, padding_idx={self.padding_idx}, table={self.table!r}"


class ShardedEmbedding(Sharded):
    """In place of an `nn.Embedding`."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """Rows by index, as `nn.Embedding` has it."""
        weight, places, padding = self.looked_up(input)
        return functional.embedding(places, weight, padding)


class ShardedEmbeddingBag(Sharded):
    """In place of an `nn.EmbeddingBag`, whatever its mode.

    Attributes:
        mode: `sum`, `mean` or `max`.
        include_last_offset: whether offsets end with the number of indices.
    """

    def __init__(self, plain: nn.EmbeddingBag, table: str, rows: Rows) -> None:
        super().__init__(plain, table, rows)
        self.mode = plain.mode
        self.include_last_offset = plain.include_last_offset

    def forward(
        self,
        input: torch.Tensor | Jagged,
        offsets: torch.Tensor | None = None,
        per_sample_weights: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Rows of bags put together, as `nn.EmbeddingBag` has it; a jagged input has its own offsets and weights."""
        if not isinstance(input, torch.Tensor):
            ends, per_sample_weights = input.offsets(), input.weights_or_none()
            offsets = ends if self.include_last_offset else ends[:-1]
            input = input.values()
        weight, places, padding = self.looked_up(input)
        return functional.embedding_bag(
            places,
            weight,
            offsets,
            mode=self.mode,
            per_sample_weights=per_sample_weights,
            include_last_offset=self.include_last_offset,
            padding_idx=padding,
        )
