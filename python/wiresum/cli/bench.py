"""`wiresum bench`: every figure that the documentation claims, with its rival in the same run."""

from typing import Any

import typer

from wiresum.bench import BENCHMARKS
from wiresum.commandline.contents import Contents


class Benchmarks(Contents):
    """Benchmarks as commands; each is imported when it is asked for, as all of them take longer than help may."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Their names, in the registry's order."""
        return list(BENCHMARKS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """One of them; None if there is no such benchmark."""
        if cmd_name not in self.list_commands(ctx):
            return None
        one = BENCHMARKS[cmd_name]
        alone = typer.Typer(add_completion=False, rich_markup_mode=None)
        epilog = f"Example: `wiresum bench {cmd_name} {one.example}`"
        alone.command(cmd_name, rich_help_panel=one.panel, epilog=epilog)(one.run)
        return typer.main.get_command(alone)


app = typer.Typer(cls=Benchmarks, help="Measure the product beside its rivals.", no_args_is_help=True)
