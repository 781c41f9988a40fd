"""`wiresum bench kills`: SIGKILL of aggregation servers in the middle of training, and what each costs."""

from __future__ import annotations

import itertools
import json
import random
import re
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from wiresum.bench.kills.command import Options
from wiresum.bench.kills.killing import (
    FEWEST_PAUSE_S,
    MOST_PAUSE_S,
    START_S,
    Killing,
    Progress,
    fail_unless_done,
)
from wiresum.bench.kills.worker import Task
from wiresum.bench.result import Report, Result
from wiresum.errors import TestbedError
from wiresum.plan.aggregation_plan import AggregationPlan, NodeChild, PlanLeg, PlanStream, WorkerChild
from wiresum.plan.job import Job
from wiresum.plan.options import PlanOptions
from wiresum.planners import plan
from wiresum.testbed import Testbed, run
from wiresum.testbed.run import RunOutcome
from wiresum.topology.generators.xagg import xagg

WARMUP_STEPS = 5
"""Before the first kill: DDP arranges its buckets in the first step."""
MAX_STEPS = 1_000_000
"""Bound of a run that ends when the kills are over."""
RETURNED = re.compile(r"rank (\d+): back at node (\S+) ")
LEFT = re.compile(r"rank (\d+): left node (\S+) .*; pause (\d+) ms")


@dataclass
class Watch:
    """What the workers have said so far. Written by the thread that reads them, read by the one that kills."""

    steps: dict[int, dict[int, int]] = field(default_factory=lambda: defaultdict(dict))
    """Checksums by step and rank."""
    times: dict[int, list[float]] = field(default_factory=lambda: defaultdict(list))
    """When each rank ended its steps."""
    returns: list[tuple[int, str]] = field(default_factory=list)
    """Rank and node of every return."""
    pauses_ms: list[float] = field(default_factory=list)
    """What the workers' log says of each departure."""
    errors: list[str] = field(default_factory=list)
    is_over: bool = False
    """The workers have ended."""

    def take(self, _rank: int, is_error: bool, line: str) -> None:
        """A line of a worker."""
        if not is_error and line.startswith("{"):
            seen = json.loads(line)
            self.steps[seen["step"]][seen["rank"]] = seen["checksum"]
            self.times[seen["rank"]].append(seen["at"])
        elif match := RETURNED.search(line):
            self.returns.append((int(match[1]), match[2]))
        elif match := LEFT.search(line):
            self.pauses_ms.append(float(match[3]))
        elif is_error:
            self.errors.append(line)

    def longest_gap_s(self, start: float, end: float) -> float:
        """The longest time between two steps of a rank that overlaps an interval."""
        gaps = (
            later - earlier
            for times in list(self.times.values())
            for earlier, later in itertools.pairwise(list(times))
            if later >= start and earlier <= end
        )
        return max(gaps, default=0.0)


@dataclass(frozen=True)
class Kill:
    """One kill: which server, when, and when its workers were back (monotonic seconds)."""

    server: str
    at: float
    back_at: float


def measure(options: Options, progress: Progress = lambda _done, _all: None) -> Report:
    """Trains with kills, then as many steps without, and compares every step.

    Raises:
        TestbedError: a worker failed, a server's workers did not come back, or a step differs.
    """
    topology = xagg(options.scale)
    job = Job(policy=options.policy)
    planned = plan(topology, job, PlanOptions(engine=options.engine))
    if options.deep:
        planned = put_below(planned, "S1", "S2")
    with Testbed(topology, planned) as bed:
        killed = Watch()
        killer = Killer(bed, removable(planned), options, killed, progress)
        killer.train()
        calm = Watch()
        steps = len(killed.steps)
        fail_unless_done(run(bed, Task(steps, "").command(), calm.take), calm, "training without kills")
    compare(killed, calm, len(planned.workers))
    return to_report(options, killer.kills, killed, calm)


Homes = dict[str, set[tuple[int, str]]]
"""By server: the workers below it, each with the name of its own server."""


def removable(planned: AggregationPlan) -> Homes:
    """Servers that may die: all but the root."""
    names = {node.id: node.name for node in planned.nodes}
    stream = planned.streams[-1]
    inner = [place.node for place in stream.places if place.node != stream.root]
    if not inner:
        raise TestbedError("no server of this plan can be removed: the only one is the root")
    return {names[node]: set(_homes_below(node, stream, names)) for node in inner}


def _homes_below(node: int, stream: PlanStream, names: dict[int, str]) -> Iterator[tuple[int, str]]:
    for child in stream.children(node):
        if isinstance(child, WorkerChild):
            yield child.worker, names[node]
        else:
            yield from _homes_below(child.node, stream, names)


def put_below(planned: AggregationPlan, server: str, above: str) -> AggregationPlan:
    """The plan with a server that has only workers below as the child of another one, in every tree."""
    ids = {node.name: node.id for node in planned.nodes}
    leg = PlanLeg(child=NodeChild(node=ids[server]), parent=ids[above])
    streams = [
        stream.model_copy(update={"legs": [*(one for one in stream.legs if one.child != leg.child), leg]})
        for stream in planned.streams
    ]
    return planned.model_copy(update={"streams": streams})


@dataclass
class Killer(Killing):
    """Kills servers of a testbed while its workers train."""

    bed: Testbed
    servers: Homes
    options: Options
    watch: Watch
    progress: Progress
    kills: list[Kill] = field(default_factory=list)
    trouble: list[BaseException] = field(default_factory=list)

    def _run(self) -> RunOutcome:
        return run(self.bed, Task(MAX_STEPS, str(self._stop_file)).command(), self.watch.take)

    def _kill_all(self) -> None:
        chance = random.Random(self.options.seed)
        self._wait_until(lambda: len(self.watch.steps) > WARMUP_STEPS, "the first steps of training", START_S)
        for done in range(self.options.count):
            self.progress(done, self.options.count)
            time.sleep(chance.uniform(FEWEST_PAUSE_S, MOST_PAUSE_S))
            self._kill_one(chance)
        self.progress(self.options.count, self.options.count)

    def _kill_one(self, chance: random.Random) -> None:
        self._kill(chance.choice(sorted(self.servers)))

    def _kill(self, server: str) -> None:
        """Kills a server, starts it again, and waits until its workers are back."""
        returned, at = len(self.watch.returns), time.monotonic()
        self.bed.deployment.daemon(server).kill()
        time.sleep(self.options.down_s)
        self.bed.deployment.revive(server)
        homes = self.servers[server]
        self._wait_until(lambda: homes <= set(self.watch.returns[returned:]), f"the return of {server}'s workers")
        self.kills.append(Kill(server, at, time.monotonic()))


def compare(killed: Watch, calm: Watch, workers: int) -> None:
    """Every step, on every rank, ended in the same bits with and without kills.

    Raises:
        TestbedError: a step is missing or differs.
    """
    for step in range(max(len(killed.steps), len(calm.steps))):
        with_kills, without = killed.steps.get(step, {}), calm.steps.get(step, {})
        if len(with_kills) != workers or len(without) != workers:
            raise TestbedError(
                f"step {step} is missing on {workers - min(len(with_kills), len(without))} ranks; please report this"
            )
        if len({*with_kills.values(), *without.values()}) != 1:
            raise TestbedError(f"step {step} differs between ranks, or from the run without kills; please report this")


def to_report(options: Options, kills: list[Kill], killed: Watch, calm: Watch) -> Report:
    """The pause of each kill, beside a step's time without kills."""
    pauses = [killed.longest_gap_s(kill.at, kill.back_at) for kill in kills]
    calm_steps = [b - a for times in calm.times.values() for a, b in itertools.pairwise(times)]
    listed = [{"server": kill.server, "at": round(kill.at - kills[0].at, 3)} for kill in kills]
    results = [
        Result("longest gap between steps, by kill", "s", pauses, {"kills": listed}),
        Result("from a kill to its server's workers being back", "s", [kill.back_at - kill.at for kill in kills]),
        Result("pause in a worker's log", "s", [pause / 1000 for pause in killed.pauses_ms] or [0.0]),
        Result("step without kills", "s", calm_steps),
    ]
    parameters = {
        "kills": len(kills),
        "topology": "xagg, S1 below S2" if options.deep else "xagg",
        "scale": options.scale,
        "engine": options.engine,
        "policy": options.policy,
        "down_s": options.down_s,
        "seed": options.seed,
    }
    notes = [
        f"{len(killed.steps)} steps with kills, none lost: the same bits on all ranks, and as without kills",
        "without removal (and as XAgg's rivals do) the first kill ends the job",
    ]
    return Report("kills", parameters, results, notes=notes)
