"""Tables of things by name that are imported when they are asked for, so that a list of names costs nothing."""

from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from importlib import import_module
from typing import Generic, TypeVar, cast

T = TypeVar("T")


class Registry(Mapping[str, T], Generic[T]):
    """Names, in order, of objects in modules.

    Args:
        places: `module:attribute` by name.

    Example:
        >>> Registry({"path": "os:path"})["path"].basename("a/b")
        'b'
    """

    def __init__(self, places: Mapping[str, str]) -> None:
        self._places = {spelled(name): place for name, place in places.items()}

    def __getitem__(self, name: str) -> T:
        module, _, attribute = self._places[spelled(name)].partition(":")
        return cast(T, getattr(import_module(module), attribute))

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and spelled(name) in self._places

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)


def spelled(name: str) -> str:
    """A name as tables have it: `goat-async`, which was `goat_async` once."""
    return name.replace("_", "-")


def remedy(name: str, known: Iterable[str]) -> str:
    """What to write instead of a name that is not known: the nearest, if one is near, or any.

    Example:
        >>> remedy("gaot", ["direct", "goat"])
        'did you mean goat? Or choose from direct, goat'
        >>> remedy("x", ["direct", "goat"])
        'choose from direct, goat'
    """
    names = list(known)
    listed = f"choose from {', '.join(names)}"
    nearest = get_close_matches(spelled(name), names, 1)
    return f"did you mean {nearest[0]}? Or {listed}" if nearest else listed
