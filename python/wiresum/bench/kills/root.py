"""`wiresum bench kills --root`: SIGKILL of a star's only aggregator, and how long ranks sum over Gloo after each."""

from __future__ import annotations

import random
import re
import time
from collections.abc import Collection
from dataclasses import dataclass, field

from wiresum.bench.kills.command import Options
from wiresum.bench.kills.killing import Progress
from wiresum.bench.kills.measure import Killer, Watch
from wiresum.bench.result import Report, Result
from wiresum.errors import TestbedError
from wiresum.plan.job import Job
from wiresum.plan.options import PlanOptions
from wiresum.planners import plan
from wiresum.testbed import Testbed
from wiresum.topology.generators.star import star

WORKERS = 4
LEFT = re.compile(r"all ranks go over to Gloo|ranks go on without ranks? ")
RETURNED = re.compile(r"all ranks are back in the network")


@dataclass
class LeavingWatch(Watch):
    """What the workers have said, of leaving the network too; times are monotonic seconds, as those of steps."""

    left_at: list[float] = field(default_factory=list)
    returned_at: list[float] = field(default_factory=list)

    def take(self, _rank: int, is_error: bool, line: str) -> None:
        """A line of a worker."""
        super().take(_rank, is_error, line)
        if LEFT.search(line):
            self.left_at.append(time.monotonic())
        elif RETURNED.search(line):
            self.returned_at.append(time.monotonic())

    def first_step_after(self, start: float) -> float:
        """When the first step ended on all ranks that ended on none before `start`."""
        after = [min((at for at in times if at > start), default=float("inf")) for times in list(self.times.values())]
        return max(after)


@dataclass(frozen=True)
class RootKill:
    """One kill (monotonic seconds): the first step over Gloo, the aggregator's new start, and the ranks' return."""

    at: float
    step_at: float
    revived_at: float
    returned_at: float


@dataclass
class RootKiller(Killer):
    """Kills the only aggregator while ranks train."""

    watch: LeavingWatch
    root_kills: list[RootKill] = field(default_factory=list)

    def _kill_one(self, chance: random.Random) -> None:
        self.root_kills.append(self._kill_root())

    def _kill_root(self) -> RootKill:
        (server,) = self.servers
        watch, left, returned, at = self.watch, len(self.watch.left_at), len(self.watch.returned_at), time.monotonic()
        self.bed.deployment.daemon(server).kill()
        self._wait_until(lambda: len(watch.left_at) > left, "the ranks' departure")
        self._wait_until(lambda: watch.first_step_after(watch.left_at[-1]) < float("inf"), "a step over Gloo")
        step_at = watch.first_step_after(watch.left_at[-1])
        time.sleep(self.options.down_s)
        revived_at = time.monotonic()
        self.bed.deployment.revive(server)
        self._wait_until(lambda: len(watch.returned_at) > returned, "the ranks' return")
        return RootKill(at, step_at, revived_at, watch.returned_at[-1])


def measure(options: Options, progress: Progress) -> Report:
    """Trains with kills, and compares every step among ranks.

    Raises:
        TestbedError: a worker failed, the ranks did not go over to Gloo or return, or a step is missing or differs.
    """
    topology = star(workers=WORKERS)
    planned = plan(topology, Job(policy=options.policy), PlanOptions(engine=options.engine))
    with Testbed(topology, planned) as bed:
        watch = LeavingWatch()
        killer = RootKiller(bed, {planned.nodes[0].name: set()}, options, watch, progress)
        killer.train()
    fail_unless_equal(watch, range(WORKERS))
    return to_report(options, killer.root_kills, watch)


def fail_unless_equal(watch: Watch, needed: Collection[int]) -> None:
    """Every step ended on these ranks, and in the same bits on all that made it.

    Raises:
        TestbedError: a step is missing on one of them, or differs.
    """
    for step in range(max(watch.steps, default=-1) + 1):
        seen = watch.steps.get(step, {})
        missing = set(needed) - seen.keys()
        if missing:
            raise TestbedError(f"step {step} is missing on {len(missing)} ranks; please report this")
        if len(set(seen.values())) != 1:
            raise TestbedError(f"step {step} differs between ranks; please report this")


def to_report(options: Options, kills: list[RootKill], watch: Watch) -> Report:
    """The times of each kill."""
    results = [
        Result("from a kill to the first step over Gloo", "s", [kill.step_at - kill.at for kill in kills]),
        Result(
            "from the aggregator's start to the return", "s", [kill.returned_at - kill.revived_at for kill in kills]
        ),
    ]
    parameters = {
        "kills": len(kills),
        "topology": f"star, {WORKERS} workers",
        "engine": options.engine,
        "policy": options.policy,
        "down_s": options.down_s,
        "seed": options.seed,
    }
    notes = [f"{len(watch.steps)} steps, none lost: the same bits on all ranks"]
    return Report("kills", parameters, results, notes=notes)
