"""DenseNet (Huang et al., 2017) with growth 32 and 1000 classes."""

from __future__ import annotations

from collections.abc import Sequence

from wiresum.plan.models.parameters import Parameter, convolution, linear, norm

GROWTH = 32
BOTTLENECK = 4
"""Width of a layer's inner convolution, in growths."""

BLOCKS = {
    "densenet121": (6, 12, 24, 16),
    "densenet169": (6, 12, 32, 32),
    "densenet201": (6, 12, 48, 32),
}


def densenet(blocks: Sequence[int], classes: int = 1000) -> list[Parameter]:
    """The parameters of a DenseNet with that many layers in its blocks."""
    channels = 2 * GROWTH
    made = [*convolution("conv0", 3, channels, 7), *norm("norm0", channels)]
    for number, layer_count in enumerate(blocks, start=1):
        for layer in range(1, layer_count + 1):
            made += _layer(f"denseblock{number}.denselayer{layer}", channels)
            channels += GROWTH
        if number < len(blocks):
            made += [*norm(f"transition{number}.norm", channels)]
            made += convolution(f"transition{number}.conv", channels, channels // 2, 1)
            channels //= 2
    return [*made, *norm("norm5", channels), *linear("classifier", channels, classes)]


def _layer(name: str, channels: int) -> list[Parameter]:
    inner = BOTTLENECK * GROWTH
    return [
        *norm(f"{name}.norm1", channels),
        *convolution(f"{name}.conv1", channels, inner, 1),
        *norm(f"{name}.norm2", inner),
        *convolution(f"{name}.conv2", inner, GROWTH, 3),
    ]
