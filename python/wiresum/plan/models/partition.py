"""From layers to sub-models: large layers are split, small ones put together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from wiresum.errors import PlanError
from wiresum.plan.models.parameters import FLOAT_BYTES, Parameter, layers

if TYPE_CHECKING:
    from wiresum.plan.job import JobSubModel


def sub_models(
    parameters: Sequence[Parameter], split_bytes: int | None = None, group_bytes: int = 0
) -> list[JobSubModel]:
    """A sub-model for each layer, as GOAT divides models (§III-B), but for layers that are too large or too small.

    Args:
        parameters: of the model, in its order.
        split_bytes: layers above are split into the fewest equal parts (`fc/1`, `fc/2`…); none where absent.
        group_bytes: neighbouring layers are one sub-model (`conv1+conv2`) while they have this much at most together.

    Raises:
        PlanError: the model has no parameters, or parts would have less than one value.

    Example:
        >>> sizes = {"a.weight": 100, "b.weight": 50, "c.weight": 2}
        >>> sub_models([Parameter(name, (size,)) for name, size in sizes.items()], 300, 250)
        [JobSubModel(name='a/1', bytes=200), JobSubModel(name='a/2', bytes=200), JobSubModel(name='b+c', bytes=208)]
    """
    if split_bytes is not None and split_bytes < FLOAT_BYTES:
        raise PlanError(f"sub-models of {split_bytes} bytes hold no value; allow {FLOAT_BYTES} or more")
    made: list[JobSubModel] = []
    together: list[tuple[str, int]] = []
    for name, size in layers(parameters):
        if size + sum(other for _, other in together) > group_bytes:
            made += _flush(together, split_bytes)
            together = []
        together.append((name, size))
    made += _flush(together, split_bytes)
    if not made:
        raise PlanError("the model has no parameters that need a gradient; give one that has")
    return made


def equal_parts(name: str, total_bytes: int, count: int) -> list[JobSubModel]:
    """`count` sub-models that differ by a value at most.

    Raises:
        PlanError: there are more parts than values.
    """
    from wiresum.plan.job import JobSubModel

    values = total_bytes // FLOAT_BYTES
    if not 1 <= count <= values:
        raise PlanError(f"{total_bytes} bytes of {name} cannot have {count} parts; give 1 to {values}")
    whole, more = divmod(values, count)
    return [
        JobSubModel(name=f"{name}/{number}", bytes=FLOAT_BYTES * (whole + (number <= more)))
        for number in range(1, count + 1)
    ]


def _flush(together: Sequence[tuple[str, int]], split_bytes: int | None) -> Iterator[JobSubModel]:
    from wiresum.plan.job import JobSubModel

    if not together:
        return
    name, size = "+".join(name for name, _ in together), sum(size for _, size in together)
    if split_bytes is None or size <= split_bytes:
        yield JobSubModel(name=name, bytes=size)
    else:
        yield from equal_parts(name, size, -(-size // (split_bytes // FLOAT_BYTES * FLOAT_BYTES)))
