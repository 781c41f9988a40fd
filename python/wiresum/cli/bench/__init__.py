"""`wiresum bench`: every figure that the documentation claims, with its rival in the same run."""

import typer

from wiresum.cli.bench import collectives, networks, packets, service
from wiresum.commandline.contents import Contents

app = typer.Typer(cls=Contents, help="Measure the product beside its rivals.", no_args_is_help=True)
for group in (collectives, packets, networks, service):
    app.add_typer(group.app)
