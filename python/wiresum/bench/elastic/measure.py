"""Kills of workers, and what they cost those who go on."""

from __future__ import annotations

import json
import os
import random
import signal
import time
from collections import defaultdict
from contextlib import suppress
from dataclasses import dataclass, field

from wiresum.bench.elastic.command import Options
from wiresum.bench.elastic.host import Task
from wiresum.bench.kills.killing import FEWEST_PAUSE_S, MOST_PAUSE_S, START_S, Killing, Progress
from wiresum.bench.result import Report, Result
from wiresum.errors import TestbedError
from wiresum.plan.job import Job
from wiresum.plan.options import PlanOptions
from wiresum.planners import plan
from wiresum.testbed import Testbed, run
from wiresum.testbed.run import RunOutcome
from wiresum.topology.generators.star import star

RECOVERY_S = 120.0
"""Within this time after a kill the others make steps, and enough workers are back for the next; else it has failed."""
FEWEST_LEFT = 2
"""Members that go on after a kill."""
WARMUP_STEPS = 5
"""Steps of each epoch before a kill: DDP arranges its buckets in the first."""
DEAD_AFTER_S = 1.0
CURRENT_S = 1.0
"""A worker that has made a step in this time is taken for one that trains."""


@dataclass(frozen=True)
class Step:
    """A step that a worker has made, in which process, and when (monotonic seconds)."""

    seat: int
    pid: int
    number: int
    checksum: int
    epoch: int
    members: int
    at: float


@dataclass
class Watch:
    """What the workers have said. Written by the thread that reads them, read by the one that kills."""

    steps: list[Step] = field(default_factory=list)
    last: dict[int, Step] = field(default_factory=dict)
    """By seat."""
    lost: list[tuple[int, float]] = field(default_factory=list)
    """Seat and time of each error."""
    errors: list[str] = field(default_factory=list)
    is_over: bool = False

    def take(self, _rank: int, is_error: bool, line: str) -> None:
        """A line of a worker."""
        begins = line.rfind('{"seat"')  # a killed worker's last line may have no end
        if is_error or begins < 0:
            self.errors.append(line)
            return
        seen = json.loads(line[begins:])
        if "lost" in seen:
            self.lost.append((seen["seat"], seen["at"]))
            return
        step = Step(
            seen["seat"], seen["pid"], seen["step"], seen["checksum"], seen["epoch"], seen["members"], seen["at"]
        )
        self.last[step.seat] = step
        self.steps.append(step)

    def training(self) -> list[Step]:
        """The last steps of those who train together now."""
        latest = max((step.epoch for step in self.last.values()), default=0)
        recent = time.monotonic() - CURRENT_S
        return [step for step in list(self.last.values()) if step.epoch == latest and step.at > recent]

    def is_settled(self) -> bool:
        """Whether all members of an epoch train, more than have to be left, and have made their first steps."""
        current = self.training()
        if len(current) <= FEWEST_LEFT or len(current) != current[0].members:
            return False
        first, pid = current[0].epoch, current[0].pid
        return sum(step.epoch == first and step.pid == pid for step in self.steps[-1000:]) >= WARMUP_STEPS


@dataclass(frozen=True)
class Kill:
    """One kill: seconds to the last survivor's error, if one had any, and to the next step of all who are left."""

    survivors: int
    error_s: float | None
    step_s: float
    pid: int


@dataclass
class Killer(Killing):
    """Kills workers of one training."""

    bed: Testbed
    options: Options
    watch: Watch
    progress: Progress
    kills: list[Kill] = field(default_factory=list)
    trouble: list[BaseException] = field(default_factory=list)

    def _run(self) -> RunOutcome:
        options = self.options
        task = Task(options.by, options.workers, options.down_s, str(self._stop_file), options.how == "cut")
        return run(self.bed, task.command(), self.watch.take, {"WIRESUM_DEAD_AFTER": f"{DEAD_AFTER_S:g}"})

    def _kill_all(self) -> None:
        chance = random.Random(self.options.seed)
        for done in range(self.options.kills):
            self.progress(done, self.options.kills)
            self._wait_until(self.watch.is_settled, "steps of enough workers", RECOVERY_S if done else START_S)
            time.sleep(chance.uniform(FEWEST_PAUSE_S, MOST_PAUSE_S))
            self.kills.append(self._kill(chance))
        self.progress(self.options.kills, self.options.kills)

    def _kill(self, chance: random.Random) -> Kill:
        members = self.watch.training()
        # The first host has the store, or the lighthouse, which its link leads to.
        fit = [step for step in members if step.seat > 0 or self.options.how == "kill"]
        victim = chance.choice(sorted(fit, key=lambda step: step.seat))
        left = {step.seat for step in members} - {victim.seat}
        errors, at = len(self.watch.lost), time.monotonic()
        if self.options.how == "cut":
            self._set_link(victim.seat, "down")
        else:
            os.kill(victim.pid, signal.SIGKILL)

        def have_stepped() -> bool:
            return all((step := self.watch.last[seat]).at > at and step.epoch > victim.epoch for seat in left)

        self._wait_until(have_stepped, "the others' next step", RECOVERY_S)
        told = [when for seat, when in self.watch.lost[errors:] if seat in left]
        stepped = max(
            min(step.at for step in self.watch.steps[-5000:] if step.seat == seat and step.epoch > victim.epoch)
            for seat in left
        )
        if self.options.how == "cut":
            with suppress(ProcessLookupError):
                os.kill(victim.pid, signal.SIGKILL)
            self._set_link(victim.seat, "up")
        return Kill(len(left), max(told) - at if told else None, stepped - at, victim.pid)

    def _set_link(self, seat: int, state: str) -> None:
        node = self.bed.workers[seat]
        for interface in self.bed.interfaces(node):
            self.bed.spawn(node, ["ip", "link", "set", interface, state]).wait()


def measure(options: Options, progress: Progress) -> Report:
    """Trains with kills, and compares every step among those who made it.

    Raises:
        TestbedError: a worker failed that was not killed, the others did not go on, or a step differs.
    """
    topology = star(workers=options.workers)
    planned = plan(topology, Job(copies=True), PlanOptions(engine=options.engine))
    with Testbed(topology, planned) as bed:
        killer = Killer(bed, options, watch := Watch(), progress)
        killer.train()
    killed = {kill.pid for kill in killer.kills}
    repeated = fail_unless_equal(watch.steps, killed)
    return to_report(options, killer.kills, watch, repeated)


def fail_unless_equal(steps: list[Step], killed: set[int]) -> int:
    """A step counts that a worker made who was not killed then; all who made it have the same bits.

    Returns:
        How many steps were made again, as only a killed worker had made them.

    Raises:
        TestbedError: a step differs, or is missing.
    """
    by_number: dict[int, dict[int, set[int]]] = defaultdict(lambda: defaultdict(set))
    last_of: dict[int, int] = {}
    for step in steps:
        last_of[step.pid] = max(step.number, last_of.get(step.pid, 0))
    for step in steps:
        is_last_word = step.pid in killed and last_of[step.pid] == step.number
        if not is_last_word:
            by_number[step.number][step.epoch].add(step.checksum)
    repeated = 0
    for number in range(1, max(by_number, default=0) + 1):
        checksums = set().union(*by_number[number].values()) if number in by_number else set()
        if not checksums and not any(step.number == number for step in steps):
            raise TestbedError(f"step {number} is missing; please report this")
        if len(checksums) > 1:
            raise TestbedError(f"step {number} differs between workers ({dict(by_number[number])}); please report this")
        repeated += len({step.checksum for step in steps if step.number == number}) > 1
    return repeated


def to_report(options: Options, kills: list[Kill], watch: Watch, repeated: int) -> Report:
    """The times of each kill."""
    results = [Result("from a kill to the next step of all who are left", "s", [kill.step_s for kill in kills])]
    errors = [kill.error_s for kill in kills if kill.error_s is not None]
    if errors:
        results.insert(0, Result("from a kill to the last survivor's error", "s", errors))
    parameters = {
        "by": options.by,
        "how": options.how,
        "kills": len(kills),
        "workers": options.workers,
        "survivors": sorted({kill.survivors for kill in kills}),
        "engine": options.engine,
        "dead_after_s": DEAD_AFTER_S,
        "seed": options.seed,
    }
    last = max((step.number for step in watch.steps), default=0)
    notes = [
        f"{last} steps, the same bits on all who made them; {repeated} were made again that only the killed had made",
        f"after {len(kills) - len(errors)} kills no survivor had an error before its next step",
        f"{len({step.pid for step in watch.steps})} processes took part, {options.workers} at most at once",
    ]
    return Report("elastic", parameters, results, notes=notes)
