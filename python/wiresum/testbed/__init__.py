"""A topology as network namespaces, veth pairs, shaped links and processes on one machine.

Example:
    >>> from wiresum.plan.job import Job
    >>> from wiresum.planners import plan
    >>> from wiresum.topology.generators.star import star
    >>> from wiresum.testbed import Testbed
    >>> topology = star(workers=4)
    >>> with Testbed(topology, plan(topology, Job())) as bed:  # doctest: +SKIP
    ...     trainers = [bed.spawn_worker(rank, ["python", "train.py"]) for rank in range(4)]
    ...     codes = [trainer.wait() for trainer in trainers]
    ...     print(bed.link_bytes())
"""

from wiresum.testbed.bed import Testbed
from wiresum.testbed.run import RunOutcome, run, run_or_fail
from wiresum.testbed.traffic import Direction, LinkTraffic

__all__ = ["Direction", "LinkTraffic", "RunOutcome", "Testbed", "run", "run_or_fail"]
