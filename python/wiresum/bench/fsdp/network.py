"""The links of `wiresum bench fsdp`, and a job in the network for each row of its mesh."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from wiresum.bench.fsdp.command import Options
from wiresum.deploy.deployment import Deployment
from wiresum.plan.job import Job
from wiresum.plan.options import PlanOptions
from wiresum.planners import plan
from wiresum.testbed import Testbed
from wiresum.topology.generators.star import star

JOB_MB = 32
"""Room for the slots of one job of the benchmark, at the switch."""


def job_of(options: Options, number: int = 1, workers: list[str] | None = None) -> Job:
    """A job with copies; of all workers unless some are named."""
    return Job(id=number, workers=workers, copies=True, gradient_bytes=options.size_bytes, lanes=options.lanes)


@contextmanager
def network(options: Options) -> Iterator[tuple[Testbed, list[str]]]:
    """Links that are there while the context is, and the file of the plan of each row's ranks.

    Ranks of a row gather and scatter, so they are a plan's workers. Those of a column sum what is left, and are none.

    Raises:
        TestbedError: it cannot be made.
        DeploymentError: the switch's daemon does not start.
    """
    topology = star(options.grid.ranks, options.rate_bps)
    how, job = PlanOptions(engine=options.engine), job_of(options)
    with Testbed(topology, plan(topology, job, how), mtu_bytes=job.mtu_bytes, loopback=False) as bed:
        if options.grid.replicas == 1:
            yield bed, [str(bed.plan_file)]
            return
        bed.deployment.stop()
        jobs = [job_of(options, number, row) for number, row in enumerate(rows(bed.workers, options.grid.shards), 1)]
        first, *others = [plan(topology, each, how) for each in jobs]
        # The daemon of a testbed has room for its own plan.
        with Deployment(bed, first, ["--memory", f"{JOB_MB * len(jobs)}MB"]) as deployment:
            yield bed, [str(deployment.plan_file), *(str(deployment.add(other)) for other in others)]


def rows(names: list[str], length: int) -> list[list[str]]:
    """Names in rows of this length, as a mesh has ranks."""
    return [names[begin : begin + length] for begin in range(0, len(names), length)]
