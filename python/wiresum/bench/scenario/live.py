"""The live answer to a scenario: its rounds, with the computing times of a simulation, by processes on shaped links."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

from wiresum.bench.scenario.measured import Measured, directions
from wiresum.bench.scenario.rows import measure_rows
from wiresum.bench.scenario.task import TOLERANCE, Task
from wiresum.errors import PlanError, TestbedError
from wiresum.plan.aggregation_plan import LANE_BYTES, AggregationPlan
from wiresum.plan.assignment.wiring import as_switched_plan
from wiresum.plan.choices import FSDP, Engine, SwitchPolicy
from wiresum.planners import SWITCH_PLANNERS
from wiresum.sim import ScenarioFile, SimulationOutcome
from wiresum.sim.planned import assigned, choices, packet_values, policy_of
from wiresum.sim.resolve import LoadTopology, topology_and_plans, topology_of
from wiresum.sim.scenario import ScenarioJob, SwitchProgram
from wiresum.testbed import Testbed, run_or_fail
from wiresum.testbed.networks import why_no_namespaces
from wiresum.topology.model import Link, Topology
from wiresum.wire import POLICIES

UNSEEN = ("duplication", "reordering", "jitter_s", "queue_bytes", "ecn_bytes")
"""Conditions of links that a testbed does not make."""
UNPLANNED = ("once", "bypass", "memory_slots", "base")
"""Fields of programs for which plans have no place."""
FABRIC_RATE_BPS = 100e6
"""Rate of the fastest link where switches are processes: what two cores carry over some ten links at once."""
MAX_TIMEOUT_S = 10.0
"""Longest timeout of a plan's switches."""


@dataclass(frozen=True)
class _Live:
    """What runs.

    Attributes:
        topology: as the testbed makes it.
        plan: of its job.
        slowdown: how many times slower everything is than in the scenario.
    """

    topology: Topology
    plan: AggregationPlan
    slowdown: float = 1.0


def measure(file: ScenarioFile, load: LoadTopology, outcome: SimulationOutcome, engine: Engine) -> Measured:
    """Runs a scenario's rounds.

    Args:
        file: the scenario.
        load: finds topologies.
        outcome: of a simulation, whose computing times are repeated.
        engine: what sums, where servers do.

    Raises:
        TestbedError: it cannot be run, or a worker failed; the message says why.
    """
    if problem := why_not(file):
        raise TestbedError(problem)
    if file.scenario.rows is not None:
        return replace(measure_rows(file, file.scenario.rows, load, engine), notes=_unseen(file))
    try:
        live = _fabric(file, load) if file.scenario.fidelity == "trains" else _servers(file, load, engine)
    except PlanError as bad:
        raise TestbedError(f"the scenario has no plan that the testbed can run: {bad}") from None
    job = file.scenario.job[0]
    waits = [[live.slowdown * wait for wait in of] for of in _waits(outcome)]
    task = Task(job.bytes // LANE_BYTES, waits, "")
    with Testbed(live.topology, live.plan, mtu_bytes=job.mtu_bytes, loss_seed=file.scenario.seed) as bed:
        measured = _measured(bed, task)
    seconds = [taken / live.slowdown for taken in measured.seconds]
    return replace(measured, seconds=seconds, notes=_notes(file, live))


def why_not(file: ScenarioFile) -> str:
    """Why a scenario cannot be run live; empty if it can."""
    scenario = file.scenario
    if len(scenario.job) > 1:
        return "the testbed runs one job at a time; compare each by itself"
    if scenario.job and (collective := scenario.job[0].collective) != "all_reduce":
        measure = FSDP if collective == FSDP else "collectives"
        return f"live rounds are all-reduces; `wiresum bench {measure}` runs {collective} live"
    for what in ("background", "failure", "link"):
        if getattr(scenario, what):
            return f"the testbed does not make `{what}`; remove it"
    if scenario.fidelity == "trains" and (problem := _why_no_fabric(file)):
        return problem
    problem = why_no_namespaces()
    return f"no network namespaces: {problem}" if problem else ""


def _why_no_fabric(file: ScenarioFile) -> str:
    job = file.scenario.job[0]
    if job.plan is None and job.planner not in SWITCH_PLANNERS:
        return f"no planner says where its switches sum; give the job one of {', '.join(SWITCH_PLANNERS)}"
    policy = policy_of(job)
    if policy is not None and not POLICIES[policy].is_exact:
        return f"{policy} sums wrongly and runs in simulation only; take a policy that is exact"
    given = [field for field in UNPLANNED if job.program and getattr(job.program, field)]
    if given:
        return f"a plan has no place for the program's `{given[0]}`; remove it"
    return ""


def _servers(file: ScenarioFile, load: LoadTopology, engine: Engine) -> _Live:
    topology, plans = topology_and_plans(file, load)
    topology = _lossy(topology, file)
    nodes = [node.model_copy(update={"engine": engine}) for node in plans[0].nodes]
    return _Live(topology, plans[0].model_copy(update={"nodes": nodes}))


def _lossy(topology: Topology, file: ScenarioFile) -> Topology:
    """With the scenario's loss, if it has one of its own."""
    loss = file.scenario.links.loss
    return topology.with_loss(loss) if loss else topology


def _fabric(file: ScenarioFile, load: LoadTopology) -> _Live:
    """The job's switches as processes, with everything slowed down to what these can carry."""
    topology, job = topology_of(file, load), file.scenario.job[0]
    rates = [rate for link in topology.links for rate in (link.bandwidth_bps, link.reverse_bandwidth_bps) if rate]
    slowdown = max(1.0, max(rates, default=FABRIC_RATE_BPS) / FABRIC_RATE_BPS)
    if job.plan is not None:
        plan = AggregationPlan.read(file.path.parent / job.plan)
        if plan.fabric is None:
            raise PlanError("servers sum in the job's plan, not switches; make one with `wiresum plan --switched`")
    else:
        plan = _switched_plan(topology, job, slowdown)
    return _Live(_slowed(_lossy(topology, file), slowdown), plan, slowdown)


def _switched_plan(topology: Topology, job: ScenarioJob, slowdown: float) -> AggregationPlan:
    """What the simulation's streams are as a plan."""
    answer = assigned(topology, job)
    # As many values in a packet as in the simulation.
    described = answer.instance.job.model_copy(update={"values_per_packet": packet_values(job)})
    answer = replace(answer, instance=replace(answer.instance, job=described))
    program = job.program or SwitchProgram()
    timeout_s = min(slowdown * program.timeout_s, MAX_TIMEOUT_S)
    policy = cast("SwitchPolicy | None", policy_of(job))
    return as_switched_plan(job.planner, answer, choices(job), policy, timeout_s=timeout_s, slots=program.slots)


def _slowed(topology: Topology, slowdown: float) -> Topology:
    def slowed(link: Link) -> Link:
        fields = ("bandwidth_bps", "reverse_bandwidth_bps")
        rates = {field: rate / slowdown for field in fields if (rate := getattr(link, field)) is not None}
        return link.model_copy(update=rates)

    return topology.model_copy(update={"links": [slowed(link) for link in topology.links]})


def _unseen(file: ScenarioFile) -> list[str]:
    given = [name for name in UNSEEN if getattr(file.scenario.links, name) is not None]
    return [f"live links leave out {', '.join(given)}"] if given else []


def _notes(file: ScenarioFile, live: _Live) -> list[str]:
    notes = _unseen(file)
    if live.slowdown > 1:
        notes.append(
            f"the live run was {live.slowdown:g} times slower than the scenario; its times are divided by that"
        )
    return notes


def _waits(outcome: SimulationOutcome) -> list[list[float]]:
    """By rank: what each worker waited before each round, from the end of the one before."""
    workers: dict[int, list[float]] = {}
    ends: dict[int, float] = {}
    for record in sorted(outcome.workers, key=lambda one: (one["rank"], one["round"])):
        rank = record["rank"]
        # Joining takes time in a simulation too, before the first worker computes.
        since = ends.get(rank, min(one["compute_s"] for one in outcome.workers))
        workers.setdefault(rank, []).append(max(0.0, record["begin_s"] - since))
        ends[rank] = record["end_s"]
    return [workers[rank] for rank in sorted(workers)]


def _measured(bed: Testbed, task: Task) -> Measured:
    output = Path(bed.folder) / "answers.json"
    task = Task(task.elements, task.waits_s, str(output))
    traffic = run_or_fail(bed, task.command(), "the live run").traffic
    found = json.loads(output.read_text())
    if found["deviation"] > TOLERANCE:
        raise TestbedError(f"sums were off by {found['deviation']:.2g} of the largest; please report this scenario")
    rounds = list(zip(*found["spans"], strict=True))
    seconds = [max(end for _, end in spans) - min(begin for begin, _ in spans) for spans in rounds]
    return Measured(seconds, directions(bed.topology, traffic), ())
