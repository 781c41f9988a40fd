"""From a scenario with rows to what the simulator runs: a plan with tables, its job file, and what workers touch."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from wiresum.errors import PlanError, TopologyError, TraceError
from wiresum.plan.aggregation_plan import AggregationPlan
from wiresum.plan.job import Job
from wiresum.plan.tables import Tables
from wiresum.planners import place_rows
from wiresum.planners.row_plans import counted, plan_with_rows, sums_in_a_tree
from wiresum.planners.tiers.instance import servers_of
from wiresum.predict.sparse import SparseNetwork
from wiresum.sim.scenario import RowsJob
from wiresum.sim.source import ScenarioFile
from wiresum.sparse.hot import hot_map
from wiresum.sparse.job import job_of_plan, sparse_job_of
from wiresum.sparse.randomness import Ints
from wiresum.sparse.spec import parse
from wiresum.sparse.trace import Trace
from wiresum.topology.model import Topology

DENSE_BYTES = 4
"""Gradient of a plan whose job has none: a plan has dense streams in any case."""


@dataclass(frozen=True, eq=False)
class PlannedRows:
    """A sparse job of a scenario.

    Attributes:
        job: as it is written.
        topology: with addresses.
        plan: its own, or a planner's.
        trace: whose rows are touched.
        text: the job's file.
    """

    job: RowsJob
    topology: Topology
    plan: AggregationPlan
    trace: Trace
    text: str

    @cached_property
    def pushed(self) -> list[list[Ints]]:
        """By round, one more than are played, and rank: the distinct keys that a worker touches."""
        workers = len(self.plan.workers)
        return [
            [self.trace.pushed(number, rank, workers) for rank in range(workers)]
            for number in range(self.job.rounds + 1)
        ]

    def touched(self, rank: int) -> list[list[list[int]]]:
        """By round and table, the rows that a worker touches, as their numbers in the table."""
        return [self.trace.rows_by_table(of_round[rank]) for of_round in self.pushed]

    @property
    def dense(self) -> AggregationPlan | None:
        """The plan of the dense gradient alone, if the job has one: tables have participants of their own."""
        return self.plan.model_copy(update={"sparse": None}) if self.job.dense_bytes else None

    @property
    def hosts(self) -> list[str]:
        """Names of the servers, then of the switches."""
        assert self.plan.sparse is not None
        names = {node.id: node.name for node in self.plan.nodes}
        servers = [server.name for server in self.plan.sparse.servers]
        return servers + [names[switch.node] for switch in self.plan.sparse.switches]


def planned_rows(file: ScenarioFile, rows: RowsJob, topology: Topology) -> PlannedRows:
    """Reads the plan of a scenario's rows, or makes it.

    Raises:
        ScenarioError: a file or a trace cannot be, or the plan is for another topology; with its line.
    """
    try:
        return _read(file, rows, topology) if rows.plan else _made(file, rows, topology)
    except TraceError as bad:
        raise file.error(("rows", "trace"), f"rows: {bad}") from None
    except (PlanError, TopologyError) as bad:
        raise file.error(("rows", "plan" if rows.plan else "planner"), f"rows: {bad}") from None


def _read(file: ScenarioFile, rows: RowsJob, topology: Topology) -> PlannedRows:
    path = file.path.parent / str(rows.plan)
    plan, text = AggregationPlan.read(path), job_of_plan(path)
    assert plan.sparse is not None, "`job_of_plan` refuses others"
    spec = rows.trace or plan.sparse.trace
    if spec is None:
        raise TraceError("the plan names no trace; give one")
    for name in [*(worker.name for worker in plan.workers), *(server.name for server in plan.sparse.servers)]:
        topology.node(name)
    return PlannedRows(rows, topology, plan, parse(spec, tables=Tables(tables=plan.sparse.tables)), text)


def _made(file: ScenarioFile, rows: RowsJob, topology: Topology) -> PlannedRows:
    tables = Tables.read(file.path.parent / rows.tables) if rows.tables else None
    trace = parse(rows.trace or "tables", tables=tables)
    network = SparseNetwork(topology, servers_of(topology, rows.servers, beside=rows.beside))
    asked = counted(network, trace, rows.dense_bytes)
    part = place_rows(asked, "tiers" if rows.planner == "none" else rows.planner)
    if rows.planner == "none":
        part = part.model_copy(update={"replicated_rows": 0, "summed_rows": 0, "root": None})
    wanted = {"replicated_rows": rows.replicated, "summed_rows": rows.summed}
    part = part.model_copy(update={name: count for name, count in wanted.items() if count is not None})
    is_hot = part.replicated_rows + part.summed_rows > 0
    hot = hot_map(trace, part.replicated_rows, part.summed_rows) if is_hot else None
    plan = plan_with_rows(
        asked.network,
        Job(gradient_bytes=rows.dense_bytes or DENSE_BYTES),
        part,
        tree=hot is not None and sums_in_a_tree(asked, part),
        hot=hot,
        trace=rows.trace,
    )
    return PlannedRows(rows, topology, plan, trace, sparse_job_of(plan, hot))


def resolve_rows(planned: PlannedRows, sites: dict[str, int]) -> dict[str, Any]:
    """What `crates/sim/src/rows` reads."""
    return {
        "name": planned.job.name,
        "job": json.loads(planned.text),
        "hosts": [sites[name] for name in planned.hosts],
        "workers": [sites[worker.name] for worker in planned.plan.workers],
        "touched": [planned.touched(worker.rank) for worker in planned.plan.workers],
    }


def resolve_dense(planned: PlannedRows) -> list[dict[str, Any]]:
    """The dense part of the job, if it has one, as a job that the simulator runs beside the rows."""
    if planned.dense is None:
        return []
    at_once = {"kind": "constant", "seconds": 0.0}
    return [
        {
            "name": f"{planned.job.name}, dense",
            "plan": planned.dense.model_dump(mode="json", exclude_none=True, exclude={"solution"}),
            "bytes": planned.job.dense_bytes,
            "rounds": planned.job.rounds,
            "workers": [{"start": at_once, "compute": at_once}] * len(planned.plan.workers),
            "streams": [],
            "barrier": False,
        }
    ]
