"""Inception-V3 (Szegedy et al., 2016) with its auxiliary classifier and 1000 classes."""

from __future__ import annotations

from collections.abc import Sequence

from wiresum.plan.models.parameters import Parameter, convolution, linear, norm

Kernel = int | tuple[int, int]
Branch = Sequence[tuple[int, Kernel]]
"""Output channels and kernel of each convolution, one after the other."""

STEM: Branch = ((32, 3), (32, 3), (64, 3), (80, 1), (192, 3))
ROW, COLUMN = (1, 7), (7, 1)


def inception_v3(classes: int = 1000) -> list[Parameter]:
    """The parameters of Inception-V3."""
    made = _branch("stem", 3, STEM)
    channels = 192
    for index, pooled in enumerate((32, 64, 64)):
        made += _block(f"a{index}", channels, _block_a(pooled))
        channels = 64 + 64 + 96 + pooled
    made += _block("b", channels, (((384, 3),), ((64, 1), (96, 3), (96, 3))))
    channels += 384 + 96
    for index, width in enumerate((128, 160, 160, 192)):
        made += _block(f"c{index}", channels, _block_c(width))
    made += [*_branch("aux", channels, ((128, 1), (768, 5))), *linear("aux.fc", 768, classes)]
    made += _block("d", channels, (((192, 1), (320, 3)), ((192, 1), (192, ROW), (192, COLUMN), (192, 3))))
    channels += 320 + 192
    for index in range(2):
        made += _block_e(f"e{index}", channels)
        channels = 320 + 4 * 384 + 192
    return [*made, *linear("fc", channels, classes)]


def _block_a(pooled: int) -> Sequence[Branch]:
    return (((64, 1),), ((48, 1), (64, 5)), ((64, 1), (96, 3), (96, 3)), ((pooled, 1),))


def _block_c(width: int) -> Sequence[Branch]:
    long = ((width, 1), (width, COLUMN), (width, ROW), (width, COLUMN), (192, ROW))
    return (((192, 1),), ((width, 1), (width, ROW), (192, COLUMN)), long, ((192, 1),))


def _block_e(name: str, channels: int) -> list[Parameter]:
    """Two of its branches end in a row and a column side by side."""
    made = _block(name, channels, (((320, 1),), ((384, 1),), ((448, 1), (384, 3)), ((192, 1),)))
    for branch in (1, 2):
        for kernel in ((1, 3), (3, 1)):
            made += _branch(f"{name}.{branch}.{kernel[0]}x{kernel[1]}", 384, ((384, kernel),))
    return made


def _block(name: str, channels: int, branches: Sequence[Branch]) -> list[Parameter]:
    return [one for index, branch in enumerate(branches) for one in _branch(f"{name}.{index}", channels, branch)]


def _branch(name: str, channels: int, branch: Branch) -> list[Parameter]:
    made: list[Parameter] = []
    for index, (outputs, kernel) in enumerate(branch):
        made += [*convolution(f"{name}.{index}.conv", channels, outputs, kernel), *norm(f"{name}.{index}.bn", outputs)]
        channels = outputs
    return made
