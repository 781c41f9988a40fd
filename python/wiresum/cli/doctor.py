"""`wiresum doctor`: what this machine can do, and what to do for the rest."""

import typer

from wiresum.commandline.options import JsonOption

UNSUPPORTED = 3


def doctor(as_json: JsonOption = False) -> None:
    """Try what Wiresum needs, and say what to do about what is missing.

    Exit code 3: something is missing that training or the demo needs.

    Example: `wiresum doctor`
    """
    from wiresum.cli import diagnosis

    if not diagnosis.run(as_json):
        raise typer.Exit(UNSUPPORTED)
