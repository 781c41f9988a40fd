"""Help as a table of contents: commands in sections, each with the first line of its help."""

from collections import defaultdict
from typing import Any

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
            command = self.get_command(ctx, name)
            panel = getattr(command, "rich_help_panel", None)
            title = panel if isinstance(panel, str) else "Commands"
            panels[title].append((name, ((command and command.help) or "").partition("\n")[0]))
        for title, rows in panels.items():
            with formatter.section(title):
                formatter.write_dl(rows)
