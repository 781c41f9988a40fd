"""`wiresum-node` in user space on a loopback port, for worlds whose gradients really travel."""

from __future__ import annotations

import subprocess
from pathlib import Path

from wiresum.plan.aggregation_plan import AggregationPlan
from wiresum.plan.choices import Engine
from wiresum.plan.job import Job
from wiresum.plan.options import PlanOptions
from wiresum.planners import plan
from wiresum.planners.participation import with_rounds
from wiresum.testbed.aggregators import find_binary
from wiresum.topology.generators.star import star

EXIT_LIMIT_S = 30.0


class Aggregator:
    """A node that sums for `workers` ranks. Use as a context manager; `plan_file` is what the ranks need."""

    def __init__(
        self,
        directory: Path,
        workers: int,
        job: Job | None = None,
        engine: Engine = "udp",
        participants: int | None = None,
    ) -> None:
        made = plan(star(workers=workers), job or Job(values_per_packet=352), PlanOptions(engine=engine))
        anywhere = [worker.model_copy(update={"address": None}) for worker in made.workers]
        self._plan = made.model_copy(update={"workers": anywhere})
        if participants is not None:
            self._plan = with_rounds(self._plan, participants)
        self.plan_file = directory / "plan.json"

    def __enter__(self) -> Aggregator:
        self._plan.write(self.plan_file)
        command = [find_binary(), "--plan", str(self.plan_file), "--node", "0", "--listen", "127.0.0.1:0"]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        ready = self.process.stdout.readline()
        assert ready.startswith("ready "), ready
        self.address = dict(word.split("=", 1) for word in ready.split()[1:])["listen"]
        node = self._plan.nodes[0].model_copy(update={"address": self.address})
        self._with(node).write(self.plan_file)
        return self

    def _with(self, node: object) -> AggregationPlan:
        return self._plan.model_copy(update={"nodes": [node]})

    @property
    def secret(self) -> str:
        """The job's secret."""
        return self._plan.job.secret

    def kill(self) -> None:
        """Ends it as a power cut would."""
        self.process.kill()
        self.process.wait()

    def __exit__(self, *_exception: object) -> None:
        self.process.terminate()
        self.process.wait(timeout=EXIT_LIMIT_S)
        assert self.process.stdout is not None
        self.process.stdout.close()
