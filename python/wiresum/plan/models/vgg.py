"""AlexNet (Krizhevsky, 2014, "one weird trick") and VGG without batch normalisation, with 1000 classes."""

from __future__ import annotations

from collections.abc import Sequence

from wiresum.plan.models.parameters import Parameter, convolution, linear

ALEXNET = ((3, 64, 11), (64, 192, 5), (192, 384, 3), (384, 256, 3), (256, 256, 3))
"""Channels before and after, and the kernel, of each convolution."""
HIDDEN = 4096
"""Width of the fully connected layers."""
WIDTHS = (64, 128, 256, 512, 512)
"""Widths of VGG's stages."""

VGG_DEPTHS = {
    "vgg11": (1, 1, 2, 2, 2),
    "vgg16": (2, 2, 3, 3, 3),
    "vgg19": (2, 2, 4, 4, 4),
}
"""Convolutions of each stage."""


def alexnet(classes: int = 1000) -> list[Parameter]:
    """The parameters of AlexNet."""
    made: list[Parameter] = []
    for index, (before, after, kernel) in enumerate(ALEXNET, start=1):
        made += convolution(f"conv{index}", before, after, kernel, bias=True)
    return [*made, *_classifier(256 * 6 * 6, classes)]


def vgg(depths: Sequence[int], classes: int = 1000) -> list[Parameter]:
    """The parameters of a VGG network."""
    made: list[Parameter] = []
    before = 3
    for stage, (width, depth) in enumerate(zip(WIDTHS, depths, strict=True), start=1):
        for index in range(1, depth + 1):
            made += convolution(f"conv{stage}_{index}", before, width, 3, bias=True)
            before = width
    return [*made, *_classifier(512 * 7 * 7, classes)]


def _classifier(inputs: int, classes: int) -> list[Parameter]:
    return [*linear("fc1", inputs, HIDDEN), *linear("fc2", HIDDEN, HIDDEN), *linear("fc3", HIDDEN, classes)]
