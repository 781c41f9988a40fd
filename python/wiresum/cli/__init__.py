"""The command `wiresum`. Each group of commands is one file and one line in `main`."""

from wiresum.cli.main import main

__all__ = ["main"]
