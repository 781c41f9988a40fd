"""Groups of a job's workers that sum by themselves: those of a mesh of ranks, as PyTorch's `DeviceMesh` makes them."""

import re
from collections.abc import Sequence
from math import prod

from wiresum.errors import PlanError

MAX_AXES = 4
"""Replicas, shards, tensors and stages of a pipeline."""


def parse_mesh(text: str) -> tuple[int, ...]:
    """Sizes of a mesh's axes, the outermost first.

    Raises:
        ValueError: it has another form, an axis of one rank, or too many axes.

    Example:
        >>> parse_mesh("2x4")
        (2, 4)
    """
    sizes = tuple(map(int, text.split("x"))) if re.fullmatch(r"\d{1,5}(x\d{1,5})*", text) else ()
    if not 1 < len(sizes) <= MAX_AXES or min(sizes) < 2:  # noqa: PLR2004 – one axis, or one rank, makes no groups
        raise ValueError(f"{text} is no mesh; give 2 to {MAX_AXES} axes of at least 2 ranks each, as 2x4")
    return sizes


def groups_of_mesh(sizes: Sequence[int]) -> list[list[int]]:
    """Ranks along each axis of a mesh in row-major order: for two axes its columns, then its rows.

    Example:
        >>> groups_of_mesh((2, 3))
        [[0, 3], [1, 4], [2, 5], [0, 1, 2], [3, 4, 5]]
    """
    return [group for axis in range(len(sizes)) for group in _along(sizes, axis)]


def _along(sizes: Sequence[int], axis: int) -> list[list[int]]:
    stride = prod(sizes[axis + 1 :])
    firsts = (rank for rank in range(prod(sizes)) if rank // stride % sizes[axis] == 0)
    return [[first + step * stride for step in range(sizes[axis])] for first in firsts]


def require_all(sizes: Sequence[int], workers: int) -> None:
    """Checks that a mesh has all workers of a job.

    Raises:
        PlanError: it has fewer, or more.
    """
    if prod(sizes) != workers:
        mesh = "x".join(map(str, sizes))
        raise PlanError(f"a mesh of {mesh} is of {prod(sizes)} ranks, not of the {workers} workers: change one of them")
