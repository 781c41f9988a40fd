"""Jobs that come at random, as in P4INC-AOI's experiments (§VII-B, §VII-C)."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from wiresum.errors import WorkloadError
from wiresum.topology.model import Topology
from wiresum.workload.model import Workload, WorkloadJob
from wiresum.workload.sites import Placer, units_of


def poisson(
    topology: Topology,
    jobs: int,
    per_second: float,
    workers: Sequence[int],
    size_bytes: tuple[int, int],
    *,
    iterations: int = 1,
    compute_s: float = 0.0,
    spread: float = 0.0,
    by_host: bool = False,
    seed: int = 0,
) -> Workload:
    """Stars whose arrivals are a Poisson process; their workers are in as few units as possible.

    The size is drawn for each job, as all workers of a model send the same. The server is in any unit that has one,
    each as likely as the others.

    Args:
        topology: where the jobs run.
        jobs: how many.
        per_second: how many come in a second on average.
        workers: numbers of workers, one of which is drawn for each job.
        size_bytes: least and most bytes of a worker's gradient; each size between is as likely as the others.
        iterations: how often each job sends it.
        compute_s: seconds of computing in each iteration.
        spread: share of the jobs that are put in two units though one has room.
        by_host: locations are hosts, not units.
        seed: of all of it.

    Raises:
        WorkloadError: a number makes no sense, or a job has no room.
    """
    least, most = size_bytes
    if jobs < 1 or per_second <= 0 or not workers or min(workers) < 1 or not 0 < least <= most:
        raise WorkloadError(
            f"{jobs} jobs, {per_second} per second, of {list(workers)} workers and {least} to {most} bytes: make every "
            "number positive, and the sizes ascending"
        )
    random = Random(seed)
    placer = Placer(units_of(topology), random, spread, by_host)
    made, now_s = [], 0.0
    for number in range(1, jobs + 1):
        now_s += random.expovariate(per_second)
        made.append(
            WorkloadJob(
                name=f"j{number}",
                arrival_s=round(now_s, 6),
                bytes=random.randint(least, most),
                workers=placer.workers(random.choice(list(workers))),
                server=placer.server(),
                iterations=iterations,
                compute_s=compute_s,
            )
        )
    return Workload(name=f"poisson-{seed}", jobs=made)
