"""`nn.Embedding` and `nn.EmbeddingBag` without their weight: rows come from servers, and gradients go there."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch.distributed as dist
from torch.distributed.tensor import DTensor
from torch.nn import functional

import torch
from torch import nn
from wiresum.errors import SparseError
from wiresum.torch.sparse.jagged import Jagged
from wiresum.torch.sparse.rows import Keys, Rows

INDEX_TYPES = (torch.int64, torch.int32)
"""As PyTorch's own embeddings have them."""
EXPORTED_AT_ONCE = 1 << 16
"""Rows of a table that are pulled together for a `state_dict`: some 4 MB of 16 values each."""


Plain = nn.Embedding | nn.EmbeddingBag
SAVED = ("weight", "optimizer_state", "steps")
"""Entries of a table in a state, whether of a plain module or of a sharded one."""


def own_attributes(plain: Plain) -> dict[str, Any]:
    """Attributes of a module that a plain `nn.Module` does not have."""
    usual = vars(nn.Module())
    return {name: value for name, value in vars(plain).items() if name not in usual}


def padding_row(plain: Plain) -> torch.Tensor | None:
    """Copy a module's padding row as float32; zeros for a weight without memory, None without such a row."""
    if plain.padding_idx is None:
        return None
    if plain.weight.is_meta:
        return torch.zeros(plain.embedding_dim)
    return plain.weight.detach()[plain.padding_idx].float().cpu().clone()


def counts_steps(optimizer: Mapping[str, Any]) -> bool:
    """Whether an optimizer's steps depend on how many there were before."""
    return optimizer["name"] == "sparse-adam" or bool(optimizer.get("lr_decay"))


@dataclass(frozen=True)
class Span:
    """Rows of a table, from `begin` to `end`, which is none of them."""

    begin: int
    end: int

    @classmethod
    def of_rank(cls, rows: int) -> Span:
        """The part of a table that this rank saves and loads, as `torch.chunk` divides it."""
        rank, ranks = (dist.get_rank(), dist.get_world_size()) if dist.is_initialized() else (0, 1)
        share = -(-rows // ranks)
        return cls(min(rank * share, rows), min((rank + 1) * share, rows))

    def pieces(self) -> Iterator[Span]:
        """Spans of rows that travel together."""
        for begin in range(self.begin, self.end, EXPORTED_AT_ONCE):
            yield Span(begin, min(begin + EXPORTED_AT_ONCE, self.end))

    @property
    def keys(self) -> Keys:
        """Keys of its rows."""
        return np.arange(self.begin, self.end)


class Sharded(nn.Module):
    """What both modules have in common.

    It has all attributes of the plain module, and its `training`.

    Args:
        plain: the module in whose place it is.
        table: its table in the job's file.
        rows: of the model.
        padding: values of the padding row, a float32 tensor [values]; None if there is no such row.

    Attributes:
        table: name of its table.
        num_embeddings: rows of the table.
        embedding_dim: values of a row.
        padding_idx: row without a gradient, which keeps its value; None if there is no such row.
        dtype: of the rows that forward looks up, each value rounded to nearest; servers have float32.
        saves: what `state_dict` has instead of the plain module's weight, by name; None for that.
    """

    num_embeddings: int
    embedding_dim: int
    padding_idx: int | None
    table: str
    dtype: torch.dtype
    saves: Callable[[Any], dict[str, Any]] | None = None
    _optimizer: Mapping[str, Any]
    _steps_before: int
    _rows: Rows
    _padding: torch.Tensor | None

    def __init__(self, plain: Plain, table: Mapping[str, Any], rows: Rows, padding: torch.Tensor | None = None) -> None:
        super().__init__()
        vars(self).update(own_attributes(plain))
        self.training = plain.training
        self.table = table["name"]
        self._optimizer = table["optimizer"]
        self._steps_before = table.get("steps_before", 0)
        self.dtype = plain.weight.dtype
        self._rows = rows
        self._padding = padding

    def __getattr__(self, name: str) -> Any:
        """Explain to code that uses a plain module's weight why there is none."""
        if name == "weight":
            raise AttributeError(
                f"table {self.table}: its rows live at servers, so the module has no weight; look rows up by calling "
                "the module, or leave it out with names="
            )
        return super().__getattr__(name)

    @property
    def steps(self) -> int:
        """Steps that the rows have had, those before the job included."""
        return max(0, self._rows.rounds + self._steps_before)

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
            SparseError: an element is no row of the table, or no whole number.
        """
        keys, places = self._keys(input)
        pulled = self._rows.pull(self.table, self._pulled(keys)).to(self.dtype)
        padding = self._place_of_padding(keys)
        if padding is not None:
            row = self._padding_row().to(self.dtype)[None]
            pulled = torch.cat([pulled[:padding], row, pulled[padding:]])
        elif not len(keys):  # an input without elements still needs a row
            pulled = torch.cat([pulled, pulled.new_zeros(1, self.embedding_dim)])
        return pulled.to(input.device), places, padding

    def _place_of_padding(self, keys: torch.Tensor) -> int | None:
        if self.padding_idx is None:
            return None
        places = (keys == self.padding_idx).nonzero()
        return int(places[0]) if len(places) else None

    def _padding_row(self) -> torch.Tensor:
        """Return the padding row. After a load, only the rank that loaded the row has it, so the servers are asked."""
        if self._padding is None:
            stored = self._rows.pull_stored(self.table, np.array([self.padding_idx]))
            self._padding = stored[0, : self.embedding_dim].clone()
        return self._padding

    def _keys(self, input: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        if input.dtype not in INDEX_TYPES:
            raise SparseError(f"table {self.table}: indices are {input.dtype}; look up with torch.int64 or torch.int32")
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

    def stored(self, span: Span) -> torch.Tensor:
        """Weights and the optimizer's state of some rows, a tensor [rows, stored]."""
        parts = [self._rows.pull_stored(self.table, piece.keys) for piece in span.pieces()]
        all_rows = torch.cat(parts) if parts else torch.empty(0, self._rows.stored[self.table])
        if self.padding_idx is not None and span.begin <= self.padding_idx < span.end:
            all_rows[self.padding_idx - span.begin, : self.embedding_dim] = self._padding_row()
        return all_rows

    def _save_to_state_dict(self, destination: dict[str, Any], prefix: str, keep_vars: bool) -> None:
        """All rows, under the name that the plain module has for them; or what `saves` says."""
        with torch.no_grad():
            saved = self.saves(self) if self.saves else {"weight": self._all_weights()}
        destination.update({prefix + name: value for name, value in saved.items()})

    def _all_weights(self) -> torch.Tensor:
        pieces = Span(0, self.num_embeddings).pieces()
        return torch.cat([self.looked_up(torch.from_numpy(piece.keys))[0] for piece in pieces])

    def _load_from_state_dict(self, state_dict: Mapping[str, Any], prefix: str, *others: Any) -> None:
        """Puts this rank's part of the rows, of a plain module's state or of a sharded one; all ranks load."""
        missing_keys, unexpected_keys, error_msgs = others[-3:]
        unexpected_keys += [key for key in state_dict if key.startswith(prefix) and key[len(prefix) :] not in SAVED]
        if f"{prefix}weight" not in state_dict:
            missing_keys.append(f"{prefix}weight")
        elif problem := self._load(state_dict, prefix):
            error_msgs.append(f"{prefix}weight: {problem}")

    def _load(self, state_dict: Mapping[str, Any], prefix: str) -> str | None:
        """Loads; or says why it cannot."""
        span, (weight, state) = Span.of_rank(self.num_embeddings), self._tensors(state_dict, prefix)
        if weight.shape[1:] != (self.embedding_dim,) or weight.shape[0] != self.num_embeddings:
            return f"the table has {self.num_embeddings} rows of {self.embedding_dim}, and these are {[*weight.shape]}"
        if state.shape[1:] != (self._rows.stored[self.table] - self.embedding_dim,):
            return f"the state is not that of {self._optimizer['name']}, which servers step with"
        had = int(state_dict.get(f"{prefix}steps", 0))
        if counts_steps(self._optimizer) and had != self._rows.next_round + self._steps_before:
            return f"the rows have had {had} steps, which the job does not know: `job_tables(…, loads={had})` says so"
        parts = [
            each.to_local() if isinstance(each, DTensor) else each[span.begin : span.end] for each in (weight, state)
        ]
        for piece in span.pieces():
            values = torch.cat([part[piece.begin - span.begin : piece.end - span.begin] for part in parts], dim=1)
            self._rows.put(self.table, piece.keys, values.float())
        self._padding = None
        return None

    def _tensors(self, state_dict: Mapping[str, Any], prefix: str) -> tuple[torch.Tensor, torch.Tensor]:
        """Weights and state; that of a plain module is what rows begin with."""
        weight = state_dict[f"{prefix}weight"]
        numbers = self._rows.stored[self.table] - self.embedding_dim
        beginning = float(self._optimizer.get("initial_accumulator_value", 0.0))
        fresh = torch.full((1, 1), beginning).expand(self.num_embeddings, numbers)
        return weight, state_dict.get(f"{prefix}optimizer_state", fresh)

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

    mode: str
    include_last_offset: bool

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
