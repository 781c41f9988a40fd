"""`wiresum-node` in user space on a loopback port, for worlds whose gradients really travel."""

from __future__ import annotations

from pathlib import Path

from wiresum.deploy.deployment import Deployment
from wiresum.deploy.hosts import ThisHost, on_loopback
from wiresum.plan.choices import Engine
from wiresum.plan.job import Job
from wiresum.plan.options import PlanOptions
from wiresum.planners import plan
from wiresum.planners.participation import with_rounds
from wiresum.topology.generators.star import star


def aggregator(
    directory: Path, workers: int, job: Job | None = None, engine: Engine = "udp", participants: int | None = None
) -> Deployment:
    """A node that sums for `workers` ranks, for a `with` block; `plan_file` is what the ranks need."""
    made = plan(star(workers=workers), job or Job(values_per_packet=352), PlanOptions(engine=engine))
    if participants is not None:
        made = with_rounds(made, participants)
    return Deployment(ThisHost(directory), on_loopback(made))
