"""`wiresum schema`: the formats of the files, for editors and other languages."""

from typing import Annotated, Literal

import typer

from wiresum import schemas

Format = Literal[
    "plan", "schedule", "topology", "tables", "hot-map", "sparse-job", "evaluation", "scenario", "workload"
]


def schema(
    which: Annotated[
        Format,
        typer.Argument(
            metavar="FORMAT",
            help="File format: plan, schedule, topology, tables, hot-map, sparse-job, evaluation, scenario or workload",
        ),
    ],
) -> None:
    """Print the JSON schema of a file format.

    Example: `wiresum schema plan > plan.schema.json`
    """
    print(schemas.path(which).read_text(encoding="utf-8"), end="")
