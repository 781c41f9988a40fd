"""The documents name what the models have, and their examples can be read."""

import json
import re
from pathlib import Path

import pytest

from wiresum.plan.aggregation_plan import (
    AggregationPlan,
    PlanJob,
    PlanLeg,
    PlanNode,
    PlanPlace,
    PlanStream,
    PlanWorker,
    Solution,
)
from wiresum.plan.evaluation import Evaluation, WorkerEvaluation
from wiresum.plan.fabric import (
    FabricEnd,
    FabricLink,
    FabricMemory,
    PlanFabric,
)
from wiresum.plan.rows import PlanHot, PlanSparse, RowSwitch, TableServer
from wiresum.plan.schedule import Circuit, Interval, Schedule
from wiresum.sim.scenario import (
    BackgroundTraffic,
    Circuits,
    Failure,
    LinkConditions,
    RowsJob,
    Scenario,
    ScenarioJob,
    SwitchProgram,
)
from wiresum.topology.model import Link, Node, Topology

SPEC = Path(__file__).parents[2] / "spec"
SECTIONS = {
    ("topology.md", "Topology"): Topology,
    ("topology.md", "Node"): Node,
    ("topology.md", "Link"): Link,
    ("plan.md", "Plan"): AggregationPlan,
    ("plan.md", "Solution"): Solution,
    ("plan.md", "Job"): PlanJob,
    ("plan.md", "Node"): PlanNode,
    ("plan.md", "Worker"): PlanWorker,
    ("plan.md", "Stream"): PlanStream,
    ("plan.md", "Place"): PlanPlace,
    ("plan.md", "Leg"): PlanLeg,
    ("plan.md", "Fabric"): PlanFabric,
    ("plan.md", "Fabric link"): FabricLink,
    ("plan.md", "Fabric end"): FabricEnd,
    ("plan.md", "Fabric memory"): FabricMemory,
    ("plan.md", "Sparse"): PlanSparse,
    ("plan.md", "Table server"): TableServer,
    ("plan.md", "Row switch"): RowSwitch,
    ("plan.md", "Hot map"): PlanHot,
    ("schedule.md", "Schedule"): Schedule,
    ("schedule.md", "Interval"): Interval,
    ("schedule.md", "Circuit"): Circuit,
    ("plan.md", "Evaluation"): Evaluation,
    ("plan.md", "Evaluated worker"): WorkerEvaluation,
    ("../docs/simulator.md", "Scenario"): Scenario,
    ("../docs/simulator.md", "Link conditions"): LinkConditions,
    ("../docs/simulator.md", "Scenario job"): ScenarioJob,
    ("../docs/simulator.md", "Circuits"): Circuits,
    ("../docs/simulator.md", "Rows"): RowsJob,
    ("../docs/simulator.md", "Switch program"): SwitchProgram,
    ("../docs/simulator.md", "Background traffic"): BackgroundTraffic,
    ("../docs/simulator.md", "Failure"): Failure,
}


def section(file: str, heading: str) -> str:
    text = (SPEC / file).read_text()
    return re.split(rf"^#+ {heading}$", text, flags=re.MULTILINE)[1].split("\n## ")[0].split("\n### ")[0]


@pytest.mark.parametrize(("place", "model"), SECTIONS.items(), ids=[f"{f}-{h}" for f, h in SECTIONS])
def test_each_table_has_the_fields_of_its_model(place, model):
    cells = re.findall(r"^\| (`[^|]*`) \|", section(*place), flags=re.MULTILINE)
    documented = {name for cell in cells for name in re.findall(r"`(\w+)`", cell)}
    assert documented == set(model.model_fields)


def test_the_examples_can_be_read():
    example = re.search(r"```json\n(.*?)```", (SPEC / "topology.md").read_text(), flags=re.DOTALL)
    assert Topology.parse(example[1]).links[1].bandwidth_from("switch") == 1e9
    assert AggregationPlan.read(SPEC / "example-plan.json").job.values_per_packet == 736


def test_the_schemas_are_json_schema():
    for model in (Topology, AggregationPlan, Schedule, Evaluation):
        assert json.loads(json.dumps(model.model_json_schema()))["type"] == "object"
