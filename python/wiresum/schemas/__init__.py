"""JSON schemas of the files that people write, one file each: printing one takes no import of its model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from wiresum.registry import Registry

if TYPE_CHECKING:
    from wiresum.document import FileDocument

MODELS: Registry[type[FileDocument]] = Registry(
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
"""The models that the schemas follow from, by the name of the format."""


def path(name: str) -> Path:
    """The file that has the schema of a format."""
    return Path(__file__).with_name(f"{name}.json")


def from_model(name: str) -> str:
    """The schema of a format as its model says it: what its file should have."""
    return json.dumps(MODELS[name].model_json_schema(), indent=2) + "\n"
