"""Tensors that ranks sum, in bfloat16: random ones, and gradients of a small model that is trained on the spot."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn

OCTAVES = 4
"""Values of `scales` differ in size by up to 2^4 both ways."""
TOKENS, WIDTH, HEADS, HIDDEN = 64, 64, 4, 128
"""The model is one layer of a transformer that predicts the next of 64 tokens: 42,000 parameters."""
BATCH, LENGTH = 8, 32
"""Sequences of a rank's batch, and their tokens."""
STEPS, LEARNING_RATE = 20, 0.01
"""Steps of Adam before the gradients are taken: those of an untrained model are unlike all later ones."""


def gaussian(ranks: int, elements: int, seed: int) -> torch.Tensor:
    """Normal values of one size.

    Args:
        ranks: number of tensors.
        elements: of each of them.
        seed: chooses the values.

    Returns:
        One row for each rank.
    """
    return torch.randn(ranks, elements, generator=torch.Generator().manual_seed(seed)).to(torch.bfloat16)


def scales(ranks: int, elements: int, seed: int) -> torch.Tensor:
    """Normal values whose size is another at each position, the same on all ranks: 2^-4 to 2^4; else as `gaussian`."""
    random = torch.Generator().manual_seed(seed)
    sizes = torch.exp2((2 * torch.rand(elements, generator=random) - 1) * OCTAVES)
    return (torch.randn(ranks, elements, generator=random) * sizes).to(torch.bfloat16)


def gradients(ranks: int, _elements: int, seed: int) -> torch.Tensor:
    """Gradients of a language model on a batch of each rank, in the order of DDP's buckets; else as `gaussian`."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model, text = Model(), Text(seed)
        optimizer = torch.optim.Adam(model.parameters(), lr=LEARNING_RATE)
        for _ in range(STEPS):
            gradient(model, text)
            optimizer.step()
        return torch.stack([gradient(model, text) for _ in range(ranks)]).to(torch.bfloat16)


class Text:
    """Text whose next token depends on the one before: a chain of Markov with random transitions."""

    def __init__(self, seed: int) -> None:
        self._random = torch.Generator().manual_seed(seed)
        self._next = torch.softmax(3 * torch.randn(TOKENS, TOKENS, generator=self._random), dim=1)

    def batch(self) -> torch.Tensor:
        """Sequences of one token more than the model reads."""
        columns = [torch.randint(TOKENS, (BATCH,), generator=self._random)]
        for _ in range(LENGTH):
            columns.append(torch.multinomial(self._next[columns[-1]], 1, generator=self._random)[:, 0])
        return torch.stack(columns, dim=1)


class Model(nn.Module):
    """Embedding, attention, a hidden layer, norms and biases: gradients of many sizes."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(TOKENS, WIDTH)
        self.layer = nn.TransformerEncoderLayer(WIDTH, HEADS, HIDDEN, dropout=0.0, batch_first=True)
        self.head = nn.Linear(WIDTH, TOKENS)
        self._mask = nn.Transformer.generate_square_subsequent_mask(LENGTH)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Logits of the next token at each place."""
        logits: torch.Tensor = self.head(self.layer(self.embedding(tokens), src_mask=self._mask, is_causal=True))
        return logits


def gradient(model: Model, text: Text) -> torch.Tensor:
    """The gradient on the next batch, as one row, the last parameters first as DDP sends them."""
    model.zero_grad()
    tokens = text.batch()
    loss = nn.functional.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())
    torch.autograd.backward(loss)
    return torch.cat([p.grad.flatten() for p in reversed(list(model.parameters())) if p.grad is not None])


KINDS: dict[str, Callable[[int, int, int], torch.Tensor]] = {
    "gaussian": gaussian,
    "scales": scales,
    "gradients": gradients,
}
"""By the name that `--data` takes."""
