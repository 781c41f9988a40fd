"""`wiresum bench`: every figure that the documentation claims, with its rival in the same run."""

import typer

from wiresum.bench import BENCHMARKS
from wiresum.commandline.contents import Contents

app = typer.Typer(cls=Contents, help="Measure the product beside its rivals.", no_args_is_help=True)
for name, one in BENCHMARKS.items():
    epilog = f"Example: `wiresum bench {name} {one.example}`"
    app.command(name, rich_help_panel=one.panel, epilog=epilog)(one.run)
