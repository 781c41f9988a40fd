"""Groups of commands: help as a table of contents, and what to write where a line is wrong."""

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from typing import Any, ClassVar

import typer
from typer import BadParameter
from typer.core import TyperCommand, TyperGroup, TyperOption
from typer.models import CommandFunctionType

MOST_NAMED = 16
"""Commands that are named where none is near."""


class _QuickHelp:
    """An option `--help` that is false where it is not given: typer loads pydantic to convert anything but a bool."""

    def get_help_option(self, ctx: Any) -> Any:
        """The option."""
        option = super().get_help_option(ctx)  # type: ignore[misc]
        if option is not None:
            option.default = False
        return option


class Command(_QuickHelp, TyperCommand):
    """A command that says what to write where its line is wrong."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """What is left of a line; what stands without its option is told where it belongs."""
        line = list(args)
        try:
            return super().parse_args(ctx, args)
        except BadParameter as missing:
            _, left_over, _ = self.make_parser(ctx).parse_args(args=line)
            # What is missing has no message; what is given and cannot be read has one.
            if left_over and not missing.message and isinstance(missing.param, TyperOption):
                option = missing.param.opts[0]
                missing.message = f"{left_over[0]} stands without an option; write {option} {left_over[0]}"
            raise

    def invoke(self, ctx: Any) -> Any:
        """Runs it; a value that cannot be read is told with its option."""
        try:
            return super().invoke(ctx)
        except BadParameter as bad:
            if bad.param is None and bad.param_hint is None:
                bad.param = self._blamed(ctx, bad.message)
            raise

    def _blamed(self, ctx: Any, message: str) -> Any:
        """The option whose value a message begins with; None if there is none, or several."""
        word = message.partition(" ")[0].strip("'")
        found = [one for one in self.params if word in _words(ctx.params.get(one.name))]
        return found[0] if len(found) == 1 else None


def _words(value: object) -> list[str]:
    """Texts that were given to an option, whose commas divide lists."""
    texts = [value] if isinstance(value, str) else value if isinstance(value, list) else []
    return [word for text in texts if isinstance(text, str) for word in (text, *text.split(","))]


class Contents(_QuickHelp, TyperGroup):
    """A group of commands, which stand under the panels that they name.

    Attributes:
        instead: what somebody may have meant who names no command of it, as the end of a sentence.
    """

    instead: ClassVar[str] = ""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """A command and its arguments; who names none is told which there are."""
        names = self.list_commands(ctx)
        is_named = args[0] in names or args[0].startswith("-") or ctx.resilient_parsing
        # Typer hints at a name that is near.
        if not is_named and len(names) <= MOST_NAMED and not get_close_matches(args[0], names):
            ctx.fail(f"No such command {args[0]!r}. Choose from {', '.join(names)}{self.instead}.")
        return super().resolve_command(ctx, args)

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


class Section(typer.Typer):
    """A group whose commands are of these classes.

    Args:
        help: of the group.
        cls: of the group.
    """

    def __init__(self, help: str, cls: type[Contents] = Contents) -> None:
        super().__init__(cls=cls, help=help, no_args_is_help=True)

    def command(self, name: str | None = None, **settings: Any) -> Callable[[CommandFunctionType], CommandFunctionType]:
        """A decorator that adds a command, as Typer's."""
        return super().command(name, **{"cls": Command, **settings})


class Listed(Contents, ABC):
    """Commands of a table, each made when it is asked for: to import all of them takes longer than help may.

    Attributes:
        known: the table, by name, in the order of the help.
    """

    known: ClassVar[Mapping[str, Any]]

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands: Any = dict.fromkeys(self.known)  # names alone: typer lists them, and hints at the nearest

    @abstractmethod
    def made(self, name: str) -> Any:
        """The command that a name of the table stands for."""

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """One of them; None if there is no such command."""
        return self.made(cmd_name) if cmd_name in self.commands else None
