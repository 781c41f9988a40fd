"""The links of `wiresum bench fsdp`, and its job in the network."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from wiresum.bench.fsdp.command import Options
from wiresum.plan.job import Job
from wiresum.plan.options import PlanOptions
from wiresum.planners import plan
from wiresum.testbed import Testbed
from wiresum.topology.generators.servers import servers
from wiresum.topology.generators.star import star


def job_of(options: Options) -> Job:
    """A job of all workers with copies; where there are replicas, rows and columns of the mesh are groups of it."""
    mesh = tuple(options.grid) if options.grid.replicas > 1 else None
    return Job(
        copies=True,
        copy_servers=options.copy_servers,
        mesh=mesh,
        gradient_bytes=options.size_bytes,
        lanes=options.lanes,
    )


@contextmanager
def network(options: Options) -> Iterator[Testbed]:
    """Links, and a switch or servers that sum, while the context is.

    Raises:
        TestbedError: it cannot be made.
        DeploymentError: a daemon does not start.
    """
    job, choices = job_of(options), PlanOptions(engine=options.engine)
    if options.servers:
        topology = servers(options.grid.ranks, options.servers, options.rate_bps)
        made = plan(topology, job, choices, "byteps")
    else:
        topology = star(options.grid.ranks, options.rate_bps)
        made = plan(topology, job, choices)
    with Testbed(topology, made, mtu_bytes=job.mtu_bytes, loopback=False) as bed:
        yield bed
