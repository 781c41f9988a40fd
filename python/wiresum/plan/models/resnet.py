"""ResNet (He et al., 2016), with 1000 classes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from wiresum.plan.models.parameters import Parameter, convolution, linear, norm

WIDTHS = (64, 128, 256, 512)


class Form(NamedTuple):
    """Blocks of each stage, and whether they are bottlenecks, whose output is four times as wide."""

    blocks: Sequence[int]
    bottleneck: bool


FORMS = {
    "resnet18": Form((2, 2, 2, 2), False),
    "resnet34": Form((3, 4, 6, 3), False),
    "resnet50": Form((3, 4, 6, 3), True),
    "resnet101": Form((3, 4, 23, 3), True),
    "resnet152": Form((3, 8, 36, 3), True),
}


def resnet(form: Form, classes: int = 1000) -> list[Parameter]:
    """The parameters of a ResNet."""
    made = [*convolution("conv1", 3, 64, 7), *norm("bn1", 64)]
    inputs = 64
    for stage, (width, blocks) in enumerate(zip(WIDTHS, form.blocks, strict=True), start=1):
        outputs = 4 * width if form.bottleneck else width
        for index in range(blocks):
            made += _block(f"layer{stage}.{index}", inputs, width, outputs, form.bottleneck)
            inputs = outputs
    return [*made, *linear("fc", inputs, classes)]


def _block(name: str, inputs: int, width: int, outputs: int, bottleneck: bool) -> list[Parameter]:
    sizes = (
        [(inputs, width, 1), (width, width, 3), (width, outputs, 1)]
        if bottleneck
        else [
            (inputs, width, 3),
            (width, outputs, 3),
        ]
    )
    made: list[Parameter] = []
    for index, (before, after, kernel) in enumerate(sizes, start=1):
        made += [*convolution(f"{name}.conv{index}", before, after, kernel), *norm(f"{name}.bn{index}", after)]
    if inputs != outputs:
        made += [*convolution(f"{name}.downsample.0", inputs, outputs, 1), *norm(f"{name}.downsample.1", outputs)]
    return made
