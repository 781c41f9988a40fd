"""Jobs of planners of switch networks: their trees as the streams of a simulated switch program."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, NamedTuple

from wiresum import wire
from wiresum.errors import PlanError
from wiresum.plan.aggregation_plan import LANE_BYTES, AggregationPlan
from wiresum.plan.assignment import Assignment
from wiresum.plan.assignment.conversion import MIN_WINDOW
from wiresum.plan.fabric import PACKET_OVERHEAD
from wiresum.plan.job import Job, JobSubModel, values_for_mtu
from wiresum.plan.models import MODELS, equal_parts, sub_models
from wiresum.plan.options import PlanOptions
from wiresum.planners import SWITCH_PLANNERS, SWITCH_POLICIES, assign
from wiresum.predict import PredictedStream
from wiresum.sim.scenario import ScenarioJob, SwitchProgram
from wiresum.sim.trees import Tree, of_assignment, of_plan, resolved_ways
from wiresum.topology.model import Topology
from wiresum.wire import PolicyName

PLANNED_FIELDS = {"policy", "slots", "base", "memory_slots"}
"""What a scenario leaves to a plan of switches, which says it."""


class Planned(NamedTuple):
    """A job's program.

    Attributes:
        policy: of its switches.
        workers: names, in rank order.
        slots: in use at the fullest switch.
        streams: as the simulator takes them.
    """

    policy: PolicyName
    workers: Sequence[str]
    slots: int
    streams: Sequence[dict[str, Any]]


def is_planned(job: ScenarioJob) -> bool:
    """Whether a planner of switch networks, or a plan, says where the job is summed."""
    return job.plan is not None or job.planner in SWITCH_PLANNERS


def simulated_secret(number: int) -> str:
    """The secret of a simulated job. It protects nothing, so a simulation never reads the secret of a plan."""
    return f"{number:064x}"


def described(job: ScenarioJob, number: int = 1) -> Job:
    """The job as planners know it, at the size of its model.

    Raises:
        PlanError: there is no such model, or it cannot be divided so.
    """
    parts = _sub_models(job)
    return Job(
        id=number, secret=simulated_secret(number), workers=job.workers, policy=job.policy, codec=job.codec,
        exponents=job.exponents, lanes=job.lanes, window=job.window, slots=job.slots, mtu_bytes=job.mtu_bytes,
        jumbo=job.jumbo, copies=job.copies,
        gradient_bytes=sum(part.bytes for part in parts) if parts and job.policy != "cache" else job.bytes,
        sub_models=parts,
    )  # fmt: skip


def _sub_models(job: ScenarioJob) -> list[JobSubModel] | None:
    if job.model is None:
        return None if job.parts is None else equal_parts("part", job.bytes, job.parts)
    if job.model not in MODELS:
        raise PlanError(f"there is no model {job.model}; choose from {', '.join(MODELS)}")
    parameters = MODELS[job.model]()
    if job.parts is None:
        return sub_models(parameters)
    return equal_parts(job.model, sum(parameter.bytes for parameter in parameters), job.parts)


def choices(job: ScenarioJob) -> PlanOptions:
    """What its planner is told."""
    return PlanOptions(engine="udp", **job.options.model_dump())


def assigned(topology: Topology, job: ScenarioJob) -> Assignment:
    """What a planner of switch networks says.

    Raises:
        PlanError: it found no place for the job.
    """
    return assign(topology, described(job), choices(job), job.planner)


def streams(
    topology: Topology, job: ScenarioJob, plan: AggregationPlan | None, values: int, sites: Mapping[str, int]
) -> Planned:
    """A job's switch program.

    Args:
        topology: where it runs.
        job: with a planner of switch networks, or with a plan.
        plan: that plan.
        values: of a packet.
        sites: index of each node.

    Raises:
        PlanError: it found no place for the job, or the job does not fit.
    """
    program = job.program or SwitchProgram()
    policy = policy_of(job, plan)
    if policy is None:
        raise PlanError("servers sum in this plan, and trains are what switches sum; give the program a `policy`")
    fragments = math.ceil(job.bytes / LANE_BYTES / values)
    if plan is not None and plan.fabric is not None:
        if said := PLANNED_FIELDS & program.model_fields_set:
            raise PlanError(f"{min(said)}: the plan says that; remove it from the program, or plan with another")
        trees = [_shaped(tree, program) for tree in of_plan(plan, topology)]
        held = max((one.slots for one in plan.fabric.memory), default=1)
        return Planned(policy, trees[0].workers, held, _placed(plan, trees, fragments, sites))
    if plan is not None:
        trees, memory, is_held = of_plan(plan, topology), None, False
    else:
        assignment = assigned(topology, job)
        trees, memory = of_assignment(assignment), _memory_slots(assignment, job, values)
        is_held = assignment.allocation != "shared"
    shaped = [_topped(_shaped(tree, program), policy) for tree in trees]
    windows = [_window(tree, job.window) for tree in shaped]
    # Only an offset of a planned stream can be the same in every round; others choose among what there is.
    many = cohorts(len(shaped[0].workers))
    places = Places(policy, program, memory or many * sum(windows), is_held and policy == "exclusive")
    places.servers, places.cohorts = {tree.root for tree in trees}, many
    return Planned(policy, shaped[0].workers, *places.streams(shaped, windows, fragments, sites))


def _placed(
    plan: AggregationPlan, trees: Sequence[Tree], fragments: int, sites: Mapping[str, int]
) -> list[dict[str, Any]]:
    """The streams of values in a plan's places, with its slots and windows.

    Raises:
        PlanError: a stream's places differ in their slots.
    """
    values = [stream for stream in plan.streams if stream.role == "values"]
    made = []
    for tree, stream, count in zip(trees, values, _cut(trees, fragments), strict=True):
        summing = {*tree.summing, tree.root}
        places = [(plan.node(place.node).name, place) for place in stream.places]
        used = {sites[name]: (place.base, place.slots) for name, place in places if place.slots and name in summing}
        slots = {slots or 0 for _, slots in used.values()}
        if len(slots) > 1:
            raise PlanError(f"{stream.name} has {min(slots)} and {max(slots)} slots; trains have equal ones, plan anew")
        sizes = {"base": 0, "slots": max(slots, default=1), "window": stream.window, "fragments": count}
        made.append({**_stream(tree, sites), "switches": [[site, base] for site, (base, _) in used.items()], **sizes})
    return made


def _stream(tree: Tree, sites: Mapping[str, int]) -> dict[str, Any]:
    """A stream's ways."""
    return {
        "waypoints": [[sites[name] for name in tree.above(worker)] for worker in tree.workers],
        "ways": resolved_ways(tree.ways, sites),
    }


def _memory_slots(assignment: Assignment, job: ScenarioJob, values: int) -> int | None:
    """Fragments that the smallest memory in use holds, scaled as the model; None where none is limited."""
    used = assignment.summed_at[1:].any(axis=1)
    memory = assignment.instance.memory_bytes[1:][used]
    least = float(memory.min(initial=math.inf))
    scale = job.bytes / assignment.instance.model_bytes
    return None if math.isinf(least) else max(1, int(least * scale / (LANE_BYTES * values)))


def cohorts(workers: int) -> int:
    """Number of cohorts of a job with so many workers; a packet at switches names workers of one cohort."""
    return -(-workers // wire.COHORT_WORKERS)


def _shaped(tree: Tree, program: SwitchProgram) -> Tree:
    """The tree as the scenario wants it."""
    parents = dict(tree.parents)
    strangers = [name for name in program.bypass if name not in parents]
    if strangers:
        raise PlanError(
            f"bypass: there is no worker {strangers[0]} in the job; name some of its workers, as {tree.workers[0]}"
        )
    parents |= dict.fromkeys(program.bypass, tree.root)
    if program.once:
        above = set(parents.values())
        parents |= {name: tree.root for name, parent in parents.items() if name in above and parent is not None}
    return _pruned(replace(tree, parents=parents), tree.workers)


def _topped(shaped: Tree, policy: PolicyName) -> Tree:
    """The tree that ends where the policy has the sums."""
    top = without_server(shaped, policy)
    if cohorts(len(shaped.workers)) > 1:
        return top
    if wire.POLICIES[policy].needs_server is False and top is shaped:
        raise PlanError(f"{policy} has no server: its tree needs one switch at the top, below {shaped.root}")
    return top


def without_server(tree: Tree, policy: PolicyName) -> Tree:
    """The tree up to its topmost switch, where that has the results: `segment` if one switch sums all workers.

    Sums of more than a cohort of workers meet at the server under every policy.
    """
    if cohorts(len(tree.workers)) > 1:
        return tree
    needs_server = wire.POLICIES[policy].needs_server
    if needs_server is None:
        needs_server = len(tree.summing) != 1
    return tree if needs_server else tree.without_root()


def policy_of(job: ScenarioJob, plan: AggregationPlan | None = None) -> PolicyName | None:
    """The policy of a job's switches, by the scenario, the plan or the planner; None where nobody says."""
    of_plan = plan.streams[0].policy if plan and plan.fabric else None
    return (job.program and job.program.policy) or of_plan or SWITCH_POLICIES.get(job.planner)


def switched(job: ScenarioJob, plan: AggregationPlan, flows: Sequence[PredictedStream]) -> list[PredictedStream]:
    """Flows of a plan's streams, as switches carry them: in their packets, and ending where their sums do."""
    policy = None if plan.fabric else policy_of(job, plan)  # A plan of switches ends where its sums do.
    factor = packets_bytes(job) / sum(one.wire_bytes for one in flows)
    return [
        one._replace(
            parents=without_server(Tree(one.parents, 1.0), policy).parents if policy else one.parents,
            wire_bytes=factor * one.wire_bytes,
        )
        for one in flows
    ]


def packets_bytes(job: ScenarioJob) -> int:
    """On the wire, of a collective in packets of switches."""
    values = packet_values(job)
    return math.ceil(job.bytes / LANE_BYTES / values) * (PACKET_OVERHEAD + LANE_BYTES * values)


def packet_values(job: ScenarioJob) -> int:
    """Values of a packet of a job."""
    return values_for_mtu(job.mtu_bytes - wire.SWITCH_HEADER_LEN)


def _pruned(tree: Tree, workers: Sequence[str]) -> Tree:
    """Without nodes that nobody sends to any more."""
    while True:
        ends = [*workers, tree.root]
        idle = [name for name in tree.parents if name not in tree.parents.values() and name not in ends]
        if not idle:
            return tree
        tree = replace(tree, parents={name: above for name, above in tree.parents.items() if name not in idle})


def _window(tree: Tree, window: int) -> int:
    return max(min(MIN_WINDOW, window), round(tree.share * window))


class Places:
    """Which slots streams have.

    Args:
        policy: of the switches.
        program: with the scenario's slots.
        memory: fragments that a switch holds, where the scenario does not say.
        is_held: whether the planner gave each stream memory of its own.

    Attributes:
        servers: who completes sums; a stream that ends elsewhere ends at a switch.
        cohorts: of the job's workers; each has slots of its own where slots are not shared.
    """

    def __init__(self, policy: PolicyName, program: SwitchProgram, memory: int, is_held: bool) -> None:
        self.policy = policy
        self.program = program
        self.slots = program.slots or memory
        self.is_held = is_held
        self.used: dict[str, int] = {}
        self.servers: set[str] = set()
        self.cohorts = 1

    def streams(
        self, trees: Sequence[Tree], windows: Sequence[int], fragments: int, sites: Mapping[str, int]
    ) -> tuple[int, list[dict[str, Any]]]:
        """Slots in use at the fullest switch, and the streams."""
        ends = _cut(trees, fragments)
        made = [
            self._stream(tree, window, count, sites) for tree, window, count in zip(trees, windows, ends, strict=True)
        ]
        return max(self.used.values(), default=1), made

    def _stream(self, tree: Tree, window: int, fragments: int, sites: Mapping[str, int]) -> dict[str, Any]:
        slots = self._slots(tree, window, fragments)
        top = [] if tree.root in self.servers else [tree.root]
        bases = self._take([*tree.summing, *top], slots)
        return {
            **_stream(tree, sites),
            "switches": [[sites[name], base] for name, base in bases.items()],
            "base": max(bases.values(), default=self.program.base),
            "slots": slots,
            "window": min(window, slots) if wire.POLICIES[self.policy].is_clocked else window,
            "fragments": fragments,
        }

    def _slots(self, tree: Tree, window: int, fragments: int) -> int:
        """Slots of a stream and cohort: its own window's under `exclusive`, a part of the job's, or all of them."""
        if self.is_held:
            return min(window, max(1, fragments))
        if wire.POLICIES[self.policy].shares_slots:
            return self.slots
        share = max(1, int(tree.share * self.slots / self.cohorts))
        return 1 << (share.bit_length() - 1) if wire.POLICIES[self.policy].is_clocked else share

    def _take(self, switches: Sequence[str], slots: int) -> dict[str, int]:
        """The first of a stream's slots at each of its switches; the same everywhere where workers choose slots."""
        taken = slots * self.cohorts
        begins = {switch: self.used.get(switch, self.program.base) for switch in switches}
        if wire.POLICIES[self.policy].shares_slots:
            begins = dict.fromkeys(switches, self.program.base)
            taken = slots
        elif not self.is_held:
            begins = dict.fromkeys(switches, max(self.used.values(), default=self.program.base))
        self.used |= {switch: begin + taken for switch, begin in begins.items()}
        return begins


def _cut(trees: Sequence[Tree], fragments: int) -> list[int]:
    """Fragments of each tree, which add up; one at least."""
    ends, passed = [0], 0.0
    for tree in trees:
        passed += tree.share
        ends.append(max(ends[-1] + 1, round(passed * fragments)))
    return [end - begin for begin, end in pairwise(ends)]
