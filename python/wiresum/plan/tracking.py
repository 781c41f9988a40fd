"""How the hot rows of a sparse job follow popularity while it runs; spec/sparse.md says what each way does."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, TypeAdapter, ValidationError

from wiresum.document import Document
from wiresum.errors import PlanError

Share = Annotated[float, Field(gt=0, le=1)]
After = Annotated[int, Field(ge=2, lt=1 << 32)]
"""A round that is not the first: something has to be counted."""
MOST_PERIOD, MOST_REACH = 1 << 20, 4
"""As `crates/sparse` has them."""


class Decaying(Document):
    """Counts that decay; in every `period`-th round the hot set is chosen anew.

    Attributes:
        period: rounds.
        per_round: what a count is multiplied by in each round.
        reach: hysteresis: a hot row stays while it is among this many times as many rows as there may be.
    """

    name: Literal["decaying"]
    period: Annotated[int, Field(ge=2, le=MOST_PERIOD)]
    per_round: Share = 0.965
    reach: Annotated[float, Field(ge=1, le=MOST_REACH)] = 1.3


class Once(Document):
    """Zebra's iterations: the hot set is chosen once, after so many rounds."""

    name: Literal["once"]
    after: After


class Sampling(Document):
    """Zebra's sampling: the hot set is chosen once, by a share of the gradients."""

    name: Literal["sampling"]
    rate: Share
    after: After


Tracking = Annotated[Decaying | Once | Sampling, Field(discriminator="name")]
WAYS = {"decaying": Decaying, "once": Once, "sampling": Sampling}


def tracking_of(text: str) -> Decaying | Once | Sampling:
    """A way as people write it.

    Raises:
        PlanError: there is no such way, or a field is wrong; the message names it.

    Example:
        >>> tracking_of("decaying:period=10").reach
        1.3
    """
    name, _, rest = text.partition(":")
    if name not in WAYS:
        raise PlanError(f"tracking {name}: is none of {', '.join(WAYS)}; write decaying:period=10")
    fields: dict[str, Any] = {"name": name}
    for part in filter(None, rest.split(",")):
        key, _, value = part.partition("=")
        if key in fields:
            raise PlanError(f"tracking {text}: {key} is given twice; leave one out")
        fields[key] = _number(value)
    try:
        return TypeAdapter[Decaying | Once | Sampling](Tracking).validate_python(fields)
    except ValidationError as error:
        first = error.errors()[0]
        field = first["loc"][-1] if len(first["loc"]) > 1 else "a field"
        raise PlanError(f"tracking {text}: {field}: {first['msg']}; write decaying:period=10") from None


def _number(text: str) -> float | str:
    """A number if it is one; what is not is refused with its field."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
