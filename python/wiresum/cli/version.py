"""`wiresum version`."""

import platform
from importlib import metadata

import typer

from wiresum.commandline.console import print_json
from wiresum.commandline.options import JsonOption


def version(as_json: JsonOption = False) -> None:
    """Print the versions of Wiresum, PyTorch, Python and the kernel.

    Example: `wiresum version --json`
    """
    versions = {
        "wiresum": _installed("wiresum"),
        "torch": _installed("torch"),
        "python": platform.python_version(),
        "kernel": platform.release(),
    }
    if as_json:
        print_json(versions)
    else:
        for name, number in versions.items():
            print(f"{name} {number}")


def print_version(is_wanted: bool) -> None:
    """Prints the version alone, and ends the command."""
    if is_wanted:
        print(f"wiresum {_installed('wiresum')}")
        raise typer.Exit


def _installed(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"
