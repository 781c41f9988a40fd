"""`wiresum schema`: the formats of the files, for editors and other languages."""

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from wiresum.commandline.console import print_json
from wiresum.registry import Registry

if TYPE_CHECKING:
    from wiresum.document import FileDocument

Format = Literal[
    "plan", "schedule", "topology", "tables", "hot-map", "sparse-job", "evaluation", "scenario", "workload"
]
MODELS: "Registry[type[FileDocument]]" = Registry(
    {
        "plan": "wiresum.plan.aggregation_plan:AggregationPlan",
        "schedule": "wiresum.plan.schedule:Schedule",
        "topology": "wiresum.topology.model:Topology",
        "tables": "wiresum.plan.tables:Tables",
        "hot-map": "wiresum.sparse.documents:HotMap",
        "sparse-job": "wiresum.sparse.documents:SparseJobFile",
        "evaluation": "wiresum.plan.evaluation:Evaluation",
        "scenario": "wiresum.sim:Scenario",
        "workload": "wiresum.workload.model:Workload",
    }
)
"""The models of the files that people write."""


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
    print_json(MODELS[which].model_json_schema())
