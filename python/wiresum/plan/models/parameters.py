"""Parameters of a model, and the layers that own them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol

FLOAT_BYTES = 4
"""Size of a gradient's value."""


class Parameter(NamedTuple):
    """A tensor that is trained.

    Attributes:
        name: `layer.weight`; what is before the last dot is its layer.
        shape: of the tensor.
    """

    name: str
    shape: tuple[int, ...]

    @property
    def layer(self) -> str:
        """The layer that it belongs to."""
        return self.name.rpartition(".")[0] or self.name

    @property
    def values(self) -> int:
        """Values."""
        return math.prod(self.shape)

    @property
    def bytes(self) -> int:
        """Size of the gradient, as float32."""
        return FLOAT_BYTES * self.values


class HasParameters(Protocol):
    """A `torch.nn.Module`, as far as it is needed here."""

    def named_parameters(self) -> Iterable[tuple[str, Any]]:
        """Names and tensors; a tensor that is used twice comes once."""


def from_module(module: HasParameters) -> list[Parameter]:
    """The parameters of a PyTorch module that need a gradient.

    Example:
        >>> import torch
        >>> from_module(torch.nn.Sequential(torch.nn.Linear(2, 3)))
        [Parameter(name='0.weight', shape=(3, 2)), Parameter(name='0.bias', shape=(3,))]
    """
    return [Parameter(name, tuple(tensor.shape)) for name, tensor in module.named_parameters() if tensor.requires_grad]


def convolution(
    name: str, inputs: int, outputs: int, kernel: int | tuple[int, int], bias: bool = False
) -> list[Parameter]:
    """A two-dimensional convolution without groups."""
    height, width = (kernel, kernel) if isinstance(kernel, int) else kernel
    weight = Parameter(f"{name}.weight", (outputs, inputs, height, width))
    return [weight, Parameter(f"{name}.bias", (outputs,))] if bias else [weight]


def linear(name: str, inputs: int, outputs: int) -> list[Parameter]:
    """A fully connected layer with a bias."""
    return [Parameter(f"{name}.weight", (outputs, inputs)), Parameter(f"{name}.bias", (outputs,))]


def norm(name: str, channels: int) -> list[Parameter]:
    """A batch or layer normalisation with scale and shift."""
    return [Parameter(f"{name}.weight", (channels,)), Parameter(f"{name}.bias", (channels,))]


def count(parameters: Iterable[Parameter]) -> int:
    """Values of all of them."""
    return sum(parameter.values for parameter in parameters)


def layers(parameters: Sequence[Parameter]) -> Iterator[tuple[str, int]]:
    """Layers in the model's order, each with the bytes of its gradient."""
    sizes: dict[str, int] = {}
    for parameter in parameters:
        sizes[parameter.layer] = sizes.get(parameter.layer, 0) + parameter.bytes
    return iter(sizes.items())
