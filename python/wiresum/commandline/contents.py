"""Help as a table of contents: commands in sections, each with the first line of its help."""

from collections import defaultdict
from collections.abc import Mapping
from typing import Any, ClassVar

from typer.core import TyperCommand, TyperGroup


class _QuickHelp:
    """An option `--help` that is false where it is not given: typer loads pydantic to convert anything but a bool."""

    def get_help_option(self, ctx: Any) -> Any:
        """The option."""
        option = super().get_help_option(ctx)  # type: ignore[misc]
        if option is not None:
            option.default = False
        return option


class Quick(_QuickHelp, TyperCommand):
    """A command that has flags only, so that nothing has to be converted."""


class Contents(_QuickHelp, TyperGroup):
    """A group of commands, which stand under the panels that they name."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Writes a section for each panel, in the order of the first command of each."""
        panels: dict[str, list[tuple[str, str]]] = defaultdict(list)
        for name in self.list_commands(ctx):
            title, summary = self.line(ctx, name)
            panels[title].append((name, summary))
        for title, rows in panels.items():
            with formatter.section(title):
                formatter.write_dl(rows)

    def line(self, ctx: Any, name: str) -> tuple[str, str]:
        """The panel of a command, and the first line of its help."""
        command = self.get_command(ctx, name)
        panel = getattr(command, "rich_help_panel", None)
        return panel if isinstance(panel, str) else "Commands", ((command and command.help) or "").partition("\n")[0]


class Listed(Contents):
    """Commands of a table, each made when it is asked for: to import all of them takes longer than help may.

    Attributes:
        known: the table, by name, in the order of the help.
    """

    known: ClassVar[Mapping[str, Any]]

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands: Any = dict.fromkeys(self.known)  # names alone: typer lists them, and hints at the nearest

    def made(self, name: str) -> Any:
        """The command that a name of the table stands for."""
        raise NotImplementedError

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """One of them; None if there is no such command."""
        return self.made(cmd_name) if cmd_name in self.commands else None
