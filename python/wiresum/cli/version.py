"""`wiresum version`."""

import platform
from importlib import metadata

from wiresum.commandline.console import print_json
from wiresum.commandline.options import JsonOption


def version(as_json: JsonOption = False) -> None:
    """Print the versions of Wiresum, PyTorch, Python and the kernel.

    Example: `wiresum version --json`
    """
    versions = {
        "wiresum": installed("wiresum"),
        "torch": installed("torch"),
        "python": platform.python_version(),
        "kernel": platform.release(),
    }
    if as_json:
        print_json(versions)
    else:
        for name, number in versions.items():
            print(f"{name} {number}")


def installed(package: str) -> str:
    """A package's version, if it is there."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"
