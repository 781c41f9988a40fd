"""Tables of things by name that are imported when they are asked for, so that a list of names costs nothing."""

from collections.abc import Iterator, Mapping
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
