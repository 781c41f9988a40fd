"""`wiresum bench kills --ranks`: SIGKILL of ranks in the middle of training, which the others go on without."""

from __future__ import annotations

import json
import os
import random
import signal
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from wiresum.bench.kills.command import Options
from wiresum.bench.kills.killing import FEWEST_PAUSE_S, MOST_PAUSE_S, START_S, Progress
from wiresum.bench.kills.measure import MAX_STEPS, WARMUP_STEPS, Killer
from wiresum.bench.kills.root import LeavingWatch, fail_unless_equal
from wiresum.bench.kills.worker import Task
from wiresum.bench.result import Report, Result
from wiresum.plan.job import Job
from wiresum.plan.options import PlanOptions
from wiresum.planners import plan
from wiresum.testbed import Testbed, run
from wiresum.testbed.run import RunOutcome
from wiresum.topology.generators.star import star

WORKERS = 8
FEWEST_LEFT = 2
"""Ranks that are left when a training ends; the next one has all again. Rank 0 has the store, and is left."""
DEAD_AFTER_S = 1.0
GOES_ON: Mapping[str, str] = {"WIRESUM_ON_LOSS": "continue", "WIRESUM_DEAD_AFTER": f"{DEAD_AFTER_S:g}"}


@dataclass
class RankWatch(LeavingWatch):
    """What the ranks have said, of their processes too."""

    pids: dict[int, int] = field(default_factory=dict)

    def take(self, rank: int, is_error: bool, line: str) -> None:
        """A line of a rank."""
        super().take(rank, is_error, line)
        if not is_error and line.startswith("{"):
            self.pids[rank] = json.loads(line)["pid"]


@dataclass(frozen=True)
class RankKill:
    """One kill: seconds in which the others made no step, and until they knew of it and were back in the network."""

    rank: int
    pause_s: float
    known_s: float
    returned_s: float


@dataclass
class RankKiller(Killer):
    """Kills ranks of one training, one after the other."""

    watch: RankWatch
    most: int = 0
    rank_kills: list[RankKill] = field(default_factory=list)

    def _run(self) -> RunOutcome:
        return run(self.bed, Task(MAX_STEPS, str(self._stop_file)).command(), self.watch.take, GOES_ON)

    def _is_warm(self) -> bool:
        return len(self.watch.steps) > WARMUP_STEPS and len(self.watch.pids) == WORKERS

    def _kill_all(self) -> None:
        chance = random.Random(self.options.seed)
        self._wait_until(self._is_warm, "the first steps of training", START_S)
        left = list(range(WORKERS))
        while len(left) > FEWEST_LEFT and len(self.rank_kills) < self.most:
            time.sleep(chance.uniform(FEWEST_PAUSE_S, MOST_PAUSE_S))
            rank = chance.choice(left[1:])
            left.remove(rank)
            self.rank_kills.append(self._kill_rank(rank, left))

    def _kill_rank(self, rank: int, left: list[int]) -> RankKill:
        watch, known, returned = self.watch, len(self.watch.left_at), len(self.watch.returned_at)
        at = time.monotonic()
        os.kill(watch.pids[rank], signal.SIGKILL)
        self._wait_until(lambda: len(watch.left_at) > known, "the others' departure")
        self._wait_until(lambda: len(watch.returned_at) > returned, "the others' return")
        back = watch.returned_at[-1]
        self._wait_until(lambda: all(watch.times[one][-1] > back for one in left), "the next steps")
        watch.times.pop(rank)  # it makes no more, which is no pause
        return RankKill(rank, watch.longest_gap_s(at, back), watch.left_at[-1] - at, back - at)


def measure(options: Options, progress: Progress) -> Report:
    """Trains until so many ranks were killed, all ranks again in each training, and compares every step.

    Raises:
        TestbedError: a rank failed that was not killed, the others did not go on or return, or a step differs.
    """
    topology = star(workers=WORKERS)
    planned = plan(topology, Job(policy=options.policy), PlanOptions(engine=options.engine))
    kills: list[RankKill] = []
    steps = trainings = 0
    while len(kills) < options.count:
        progress(len(kills), options.count)
        with Testbed(topology, planned) as bed:
            watch = RankWatch()
            seeded = Options(**{**vars(options), "seed": options.seed + trainings})
            killer = RankKiller(bed, {}, seeded, watch, progress, most=options.count - len(kills))
            killer.train()
        fail_unless_equal(watch, [0])
        kills += killer.rank_kills
        steps, trainings = steps + len(watch.steps), trainings + 1
    progress(len(kills), options.count)
    return to_report(options, kills, steps, trainings)


def to_report(options: Options, kills: list[RankKill], steps: int, trainings: int) -> Report:
    """The times of each kill."""
    results = [
        Result("from a kill to the others' departure", "s", [kill.known_s for kill in kills]),
        Result("longest gap between steps, by kill", "s", [kill.pause_s for kill in kills]),
        Result("from a kill to the return to the network", "s", [kill.returned_s for kill in kills]),
    ]
    parameters = {
        "kills": len(kills),
        "trainings": trainings,
        "topology": f"star, {WORKERS} workers, down to {FEWEST_LEFT}",
        "engine": options.engine,
        "policy": options.policy,
        "dead_after_s": DEAD_AFTER_S,
        "seed": options.seed,
    }
    notes = [f"{steps} steps, none lost: the same bits on all ranks that were left"]
    return Report("kills", parameters, results, notes=notes)
