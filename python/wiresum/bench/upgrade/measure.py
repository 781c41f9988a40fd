"""`wiresum bench upgrade`: daemons that are taken over by new ones in the middle of training, and what each costs."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from wiresum.bench.kills import measure as kills
from wiresum.bench.kills.command import Options as Moments
from wiresum.bench.kills.killing import fail_unless_done
from wiresum.bench.kills.measure import Killer, Watch
from wiresum.bench.kills.worker import Task
from wiresum.bench.result import Report, Result
from wiresum.bench.upgrade.command import Options
from wiresum.plan.job import Job
from wiresum.plan.options import PlanOptions
from wiresum.planners import plan
from wiresum.testbed import Testbed, run
from wiresum.topology.generators.xagg import xagg
from wiresum.topology.model import Topology

STEPS_BETWEEN = 2
"""Steps that all ranks end after an upgrade, before the next one."""


@dataclass(frozen=True)
class Upgrade:
    """One upgrade: which node, from when to when (monotonic seconds), and how long its socket waited."""

    node: str
    began: float
    ended: float
    waited_s: float


@dataclass
class Upgrader(Killer):
    """Upgrades the aggregators of a testbed while its workers train; the root, too."""

    upgrades: list[Upgrade] = field(default_factory=list)

    def _kill(self, server: str) -> None:
        """Upgrades a node, and waits until training has gone on."""
        began = time.monotonic()
        waited_s = self.bed.deployment.upgrade(server)
        self.upgrades.append(Upgrade(server, began, time.monotonic(), waited_s))
        enough = len(self.watch.steps) + STEPS_BETWEEN
        self._wait_until(lambda: len(self.watch.steps) > enough, f"a step after the upgrade of {server}")


def measure(
    options: Options,
    progress: Callable[[int, int], None] = lambda _done, _all: None,
    topology: Topology | None = None,
) -> Report:
    """Trains with upgrades, then as many steps without, and compares every step.

    Args:
        options: what to upgrade, and how often.
        progress: takes upgrades so far, and upgrades in all.
        topology: of the testbed; None: xagg at 1:100.

    Raises:
        TestbedError: a worker failed, a daemon was not taken over, or a step is missing or differs.
    """
    topology = topology or xagg(1 / 100)
    planned = plan(topology, Job(policy=options.policy), PlanOptions(engine=options.engine))
    nodes: kills.Homes = {node.name: set() for node in planned.nodes}
    moments = Moments(kills=options.upgrades, engine=options.engine, policy=options.policy, seed=options.seed)
    with Testbed(topology, planned) as bed:
        upgraded = Watch()
        upgrader = Upgrader(bed, nodes, moments, upgraded, progress)
        upgrader.train()
        calm = Watch()
        outcome = run(bed, Task(len(upgraded.steps), "").command(), calm.take)
        fail_unless_done(outcome, calm, "training without upgrades")
    kills.compare(upgraded, calm, len(planned.workers))
    return to_report(options, topology.name, upgrader.upgrades, upgraded, calm)


def to_report(options: Options, name: str, upgrades: list[Upgrade], upgraded: Watch, calm: Watch) -> Report:
    """What each upgrade cost, beside a step's time without."""
    listed: dict[str, Any] = {"nodes": [upgrade.node for upgrade in upgrades]}
    gaps = [upgraded.longest_gap_s(upgrade.began, upgrade.ended) for upgrade in upgrades]
    results = [
        Result("the node's socket waited", "s", [upgrade.waited_s for upgrade in upgrades], listed),
        Result("from the start of a new daemon to the end of the old", "s", [u.ended - u.began for u in upgrades]),
        Result("longest time between steps, by upgrade", "s", gaps),
        Result("longest time between steps without upgrades", "s", [calm.longest_gap_s(0.0, float("inf"))]),
    ]
    parameters = {
        "upgrades": len(upgrades), "topology": name, "engine": options.engine, "policy": options.policy,
        "seed": options.seed,
    }  # fmt: skip
    notes = [
        f"{len(upgraded.steps)} steps with upgrades, none lost: the same bits on all ranks, and as without upgrades"
    ]
    return Report("upgrade", parameters, results, notes=notes)
