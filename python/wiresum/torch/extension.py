"""Finds and loads the C++ extension: the one that was shipped or built here, or else one that is built once.

An extension uses classes of PyTorch's C++ library, so it fits one minor version of PyTorch (2.15, whatever the patch
and the accelerator) and, as every extension that is not limited to the stable ABI, one minor version of Python. What
it fits, and the sources it was made from, are its file's name, so that several lie side by side.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import sys
import sysconfig
from functools import cache
from importlib import metadata
from pathlib import Path
from types import ModuleType

from wiresum.errors import ExtensionError

MODULE = "wiresum.torch._c10d"
PACKAGE_DIRECTORY = Path(__file__).parent
SOURCE_DIRECTORY = PACKAGE_DIRECTORY / "csrc"
REMEDY = "Run `python -m wiresum.torch.build` (about a minute; needs a C++ compiler, ninja and Python's headers)."
UNWRITABLE = "Set XDG_CACHE_HOME to a folder that can be written and lasts, or build where packages are installed."
DIGEST_LEN = 12
"""Hexadecimal digits of the sources' digest in a file's name: enough to tell versions of one project apart."""


def cache_directory() -> Path:
    """Where extensions that were not shipped are built, one folder for all environments of a user."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "wiresum"


def file_name() -> str:
    """The name of the extension that fits this Python, this PyTorch and these sources."""
    minor = ".".join(metadata.version("torch").split(".")[:2])
    return f"_c10d-torch{minor}-{_sources()}{sysconfig.get_config_var('EXT_SUFFIX')}"


@cache
def _sources() -> str:
    digest = hashlib.sha256()
    for path in sorted([*SOURCE_DIRECTORY.glob("*.cpp"), *SOURCE_DIRECTORY.glob("*.h")]):
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:DIGEST_LEN]


def find() -> Path | None:
    """The extension that fits: beside the package, or else in the user's cache."""
    candidates = (folder / file_name() for folder in (PACKAGE_DIRECTORY, cache_directory()))
    return next((path for path in candidates if path.is_file()), None)


def load() -> ModuleType:
    """Imports the extension; builds it in the user's cache, once and with a line that says so, where none fits.

    Raises:
        ExtensionError: none fits and none can be built, or it cannot be loaded; the message names the remedy.
    """
    if loaded := sys.modules.get(MODULE):
        return loaded
    path = find() or _build()
    try:
        return _import(path)
    except ImportError as error:
        raise ExtensionError(
            f"The PyTorch extension of wiresum, {path}, cannot be loaded: {error}. {REMEDY}"
        ) from error


def _build() -> Path:
    from wiresum.torch import build

    try:
        return build.build(cache_directory())
    except (RuntimeError, OSError) as error:
        why = " ".join(str(error).strip().splitlines()[:1])
        remedy = f"{UNWRITABLE} {REMEDY}" if isinstance(error, OSError) else REMEDY
        message = f"The PyTorch extension {file_name()} is missing, and cannot be built here: {why}. {remedy}"
        raise ExtensionError(message) from error


def _import(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(MODULE, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is no extension module of this Python")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    sys.modules[MODULE] = module
    return module
