"""JSON of YANG data (RFC 7951), in the forms that encoders of devices give it.

Members have the name of their module as a prefix, or no prefix. A list of one entry comes as an array, or as the entry
alone. What is empty comes as nothing, as `null`, as an empty object or as an empty array.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

MAX_SHOWN = 80
"""Letters of an answer that an error shows."""


def bare(name: str) -> str:
    """A name without the prefix of its module.

    Example:
        >>> bare("optical-switch:pair")
        'pair'
    """
    return name.rpartition(":")[2]


def member(content: Any, name: str, *, is_optional: bool = False) -> Any:
    """The value of an object's member with this bare name; None if the content is empty.

    Args:
        content: the object.
        name: of the member.
        is_optional: whether an object with other members only has no such value. Otherwise it is of an unknown form.

    Raises:
        ValueError: the content is not an object, or lacks the member.
    """
    wanted = f"an object with the member {name}"
    found = entries(content, wanted)
    values = [value for entry in found for key, value in entry.items() if bare(key) == name]
    if len(found) > 1 or (not values and any(found) and not is_optional):
        raise unexpected(wanted, content)
    return values[0] if values else None


def entries(content: Any, wanted: str) -> list[Mapping[str, Any]]:
    """The entries of a list of objects, of which an encoder may show a single one without brackets.

    Args:
        content: the list; nothing is an empty one.
        wanted: what should be here, for the message.

    Raises:
        ValueError: an entry is not an object.
    """
    if content is None or content == [None]:
        return []
    found = content if isinstance(content, list) else [content]
    if not all(isinstance(entry, Mapping) for entry in found):
        raise unexpected(wanted, content)
    return found


def whole(content: Any, wanted: str) -> int:
    """A whole number, or a text of digits, as numbers of 64 bits are encoded.

    Raises:
        ValueError: it is neither.
    """
    is_text = isinstance(content, str) and content.isascii() and content.isdigit() and len(content) < MAX_SHOWN
    if is_text or (isinstance(content, int) and not isinstance(content, bool)):
        return int(content)
    raise unexpected(wanted, content)


def unexpected(wanted: str, content: Any) -> ValueError:
    """The error that says what was expected and what came."""
    shown = json.dumps(content, ensure_ascii=False, default=str)
    return ValueError(f"expected {wanted}, and got {shown[:MAX_SHOWN]}{'…' * (len(shown) > MAX_SHOWN)}")
