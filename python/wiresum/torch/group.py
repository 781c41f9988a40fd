"""Creates the backend of a process group: what PyTorch calls for `init_process_group("wiresum")`."""

from __future__ import annotations

import logging
from functools import cache
from types import ModuleType
from typing import TYPE_CHECKING, Any

from torch._C._distributed_c10d import PrefixStore, Store

from wiresum.errors import (
    CollectiveError,
    CollectiveTimeoutError,
    ExtensionError,
    MismatchError,
    SettingError,
    WiresumError,
    WorkerLostError,
)
from wiresum.torch import extension, reconfigurable
from wiresum.torch.formation import Formation, Members, Tools, store_of_this_life
from wiresum.torch.settings import Settings, misspelt

if TYPE_CHECKING:
    from torch._C._distributed_c10d import Backend

logger = logging.getLogger("wiresum.torch")


def create(options: Any, _backend_options: object | None = None) -> Backend:
    """Makes the backend of a group.

    Args:
        options: torch's `_DistributedBackendOptions`.
        _backend_options: ignored, as by Gloo.

    Raises:
        WiresumError: the extension is missing, a setting is wrong, the ranks disagree, or the aggregators cannot be
            joined. Every rank raises it, with the ranks that are to blame in the message.
    """
    tools, failure = prepare()
    if _is_first_of_all(options):
        for sentence in misspelt():
            _tell_once(sentence)
    members = Members.of(options)
    if options.enable_reconfigure:
        if failure is not None:
            raise failure
        return reconfigurable.create(tools, members)
    store = store_of_this_life(options.store, members)
    return Formation(tools, members, store, _store_of_all_groups(options)).form(failure=failure)


def prepare() -> tuple[Tools, WiresumError | None]:
    """The extension, the settings, and what is wrong with them: the other ranks must hear of it before it is raised."""
    try:
        settings = Settings.from_environment()
        _set_up_logging(settings)
        native = extension.load()
    except (SettingError, ExtensionError) as error:
        return Tools(ModuleType("missing"), Settings()), error
    native.set_error_types(MismatchError, CollectiveTimeoutError, WorkerLostError, CollectiveError)
    return Tools(native, settings), None


def _store_of_all_groups(options: Any) -> Store:
    """The store that all of `new_group()` share: PyTorch adds a prefix for the group and one for the device."""
    store: Store = options.store
    for _ in range(2):
        if isinstance(store, PrefixStore):
            store = store.underlying_store
    return store


def _is_first_of_all(options: Any) -> bool:
    """Whether this is rank 0 of the whole job; PyTorch lists no ranks for the group of all."""
    ranks: list[int] = options.global_ranks_in_group
    rank: int = ranks[options.group_rank] if ranks else options.group_rank
    return rank == 0


@cache
def _tell_once(sentence: str) -> None:
    """A warning that is not repeated, however many groups there are."""
    logger.warning("%s", sentence)


def _set_up_logging(settings: Settings) -> None:
    """Messages go to standard error unless the program has its own idea of logging."""
    package_logger = logging.getLogger("wiresum")
    if settings.log == "off":
        package_logger.disabled = logger.disabled = True
        return
    if package_logger.level == logging.NOTSET:
        package_logger.setLevel(settings.log.upper())
    if not package_logger.hasHandlers():
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("wiresum: %(levelname)s: %(message)s"))
        package_logger.addHandler(handler)
