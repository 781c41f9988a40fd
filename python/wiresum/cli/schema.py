"""`wiresum schema`: the formats of the files, for editors and other languages."""

from enum import StrEnum
from typing import Annotated

import typer

from wiresum.cli.console import print_json
from wiresum.document import FileDocument
from wiresum.plan.aggregation_plan import AggregationPlan
from wiresum.plan.evaluation import Evaluation
from wiresum.sim import Scenario
from wiresum.topology.model import Topology


class Format(StrEnum):
    """File formats."""

    PLAN = "plan"
    TOPOLOGY = "topology"
    EVALUATION = "evaluation"
    SCENARIO = "scenario"


MODELS: dict[Format, type[FileDocument]] = {
    Format.PLAN: AggregationPlan,
    Format.TOPOLOGY: Topology,
    Format.EVALUATION: Evaluation,
    Format.SCENARIO: Scenario,
}


def schema(
    which: Annotated[Format, typer.Argument(metavar="FORMAT", help="plan, topology, evaluation or scenario")],
) -> None:
    """Print the JSON schema of a file format.

    Example: `wiresum schema plan > plan.schema.json`
    """
    print_json(MODELS[which].model_json_schema())
