"""`wiresum-node` in user space on a loopback port, for worlds whose gradients really travel."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from world import World

from wiresum.deploy.deployment import Deployment
from wiresum.deploy.hosts import ThisHost, on_loopback
from wiresum.plan.choices import Engine
from wiresum.plan.job import Job
from wiresum.plan.options import PlanOptions
from wiresum.planners import plan
from wiresum.planners.participation import with_rounds
from wiresum.topology.generators.star import star

DOWN_S = 0.5
"""Seconds without a daemon."""


def kill_and_revive(node: Deployment, after_s: float) -> threading.Timer:
    """Kills the only daemon after a time, and starts it again half a second later. Begun; to be joined."""

    def kill() -> None:
        node.daemon("switch").kill()
        time.sleep(DOWN_S)
        node.revive("switch")

    timer = threading.Timer(after_s, kill)
    timer.start()
    return timer


def aggregator(
    directory: Path, workers: int, job: Job | None = None, engine: Engine = "udp", participants: int | None = None
) -> Deployment:
    """A node that sums for `workers` ranks, for a `with` block; `plan_file` is what the ranks need.

    Over UDP it has as many threads as each rank.
    """
    job = job or Job(values_per_packet=352)
    made = plan(star(workers=workers), job, PlanOptions(engine=engine))
    if participants is not None:
        made = with_rounds(made, participants)
    threads = ["--threads", str(job.threads)] if engine == "udp" else []
    return Deployment(ThisHost(directory), on_loopback(made), threads)


@contextmanager
def networked(directory: Path, ranks: int, job: Job | None = None) -> Iterator[World]:
    """Ranks and their node, with the threshold that users have: what is small goes beside what is summed."""
    with aggregator(directory, ranks, job) as node, World(ranks, {"WIRESUM_PLAN": str(node.plan_file)}) as world:
        yield world
