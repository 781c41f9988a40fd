"""Finds and loads the C++ extension, and says what to do where it is missing or stale."""

from __future__ import annotations

import hashlib
import importlib
import json
import sys
import sysconfig
from dataclasses import asdict, dataclass
from pathlib import Path
from types import ModuleType

from wiresum.errors import ExtensionError

PACKAGE_DIRECTORY = Path(__file__).parent
MODULE_PATH = PACKAGE_DIRECTORY / f"_c10d{sysconfig.get_config_var('EXT_SUFFIX')}"
STAMP_PATH = PACKAGE_DIRECTORY / "_c10d.stamp.json"
REMEDY = "Run `python -m wiresum.torch.build` (about a minute)."


@dataclass(frozen=True)
class Stamp:
    """What an extension was built from; it fits only the same again."""

    torch: str
    python: str
    sources: str


def current_stamp() -> Stamp:
    """The stamp that an extension for this Python, this PyTorch and these sources has."""
    import torch

    digest = hashlib.sha256()
    for path in sorted([*(PACKAGE_DIRECTORY / "csrc").glob("*.cpp"), *(PACKAGE_DIRECTORY / "csrc").glob("*.h")]):
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return Stamp(torch=str(torch.__version__), python=sys.version.split()[0], sources=digest.hexdigest())


def read_stamp() -> Stamp | None:
    """The stamp of the extension that is there, if one is."""
    try:
        return Stamp(**json.loads(STAMP_PATH.read_text()))
    except (OSError, ValueError, TypeError):
        return None


def write_stamp(stamp: Stamp) -> None:
    """Marks the extension as built from `stamp`."""
    STAMP_PATH.write_text(json.dumps(asdict(stamp), indent=2) + "\n")


def load() -> ModuleType:
    """Imports the extension.

    Raises:
        ExtensionError: it is missing, or was built for something else; the message names the remedy.
    """
    built = read_stamp()
    if built is None or not MODULE_PATH.exists():
        raise ExtensionError(
            f"The PyTorch extension of wiresum has not been built ({MODULE_PATH} is missing). {REMEDY}"
        )
    wanted = current_stamp()
    if built != wanted:
        raise ExtensionError(f"The PyTorch extension of wiresum was built for {_difference(built, wanted)}. {REMEDY}")
    try:
        return importlib.import_module("wiresum.torch._c10d")
    except ImportError as error:
        raise ExtensionError(f"The PyTorch extension of wiresum cannot be loaded: {error}. {REMEDY}") from error


def _difference(built: Stamp, wanted: Stamp) -> str:
    if built.torch != wanted.torch:
        return f"PyTorch {built.torch}, this is {wanted.torch}"
    if built.python != wanted.python:
        return f"Python {built.python}, this is {wanted.python}"
    return "other sources than those installed"
