"""One server with a daemon, and hosts around it, for the benchmarks of the daemon as a service."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from typing import Any, Self

from wiresum.bench.aggregator.measure import star as star_plan
from wiresum.deploy.daemon import Daemon
from wiresum.deploy.deployment import Deployment
from wiresum.deploy.server import Server, start_server
from wiresum.errors import SupportError, TestbedError
from wiresum.plan.aggregation_plan import AggregationPlan
from wiresum.plan.choices import Engine
from wiresum.plan.job import Job
from wiresum.plan.options import PlanOptions
from wiresum.planners import plan
from wiresum.testbed import Testbed
from wiresum.topology.generators.star import star

PORT = 5747
SERVER = "switch"
MEMORY = "64MB"
"""Slots of two jobs of the benchmark, with room."""
LOAD_GRACE_S = 30.0
"""From the end of a load to the end of its process, on a busy machine."""


class ServiceBed:
    """A star of hosts around one server, with one daemon at a time.

    Args:
        hosts: around it.
        rate_bps: of each link; None: as fast as the machine.
        xdp: the ports are made for XDP; any other engine runs on them, too.
    """

    def __init__(self, hosts: int, rate_bps: float | None, *, xdp: bool) -> None:
        topology = star(hosts, rate_bps)
        self._bed = Testbed(topology, plan(topology, Job(), PlanOptions(engine="xdp" if xdp else "udp")))
        self._deployment = self._bed.deployment

    def __enter__(self) -> Self:
        self._bed.up()
        if self._bed.why_loopback:
            self._bed.down()
            raise SupportError(f"this benchmark needs network namespaces: {self._bed.why_loopback}")
        # The testbed's own aggregator has shown that packets are delivered; daemons come and go from here on.
        self.stop()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        self._bed.down()

    @property
    def daemon(self) -> Daemon:
        """The daemon that runs."""
        return self._deployment.daemon(SERVER)

    def start(self, engine: Engine) -> float:
        """Starts the daemon, without jobs unless it speaks TCP, as a plan has to say; the seconds until it is ready."""
        self._deployment = Deployment(self._bed, self.job(1, 0, 1, engine), ["--memory", MEMORY])
        started = time.perf_counter()
        self._deployment.start(idle=engine != "tcp")
        return time.perf_counter() - started

    def each(self, engines: Iterable[Engine]) -> Iterator[Engine]:
        """One engine after the other, each with a daemon without jobs."""
        for engine in engines:
            self.start(engine)
            yield engine
            self.stop()

    def stop(self) -> None:
        """Ends the daemon, if there is one."""
        self._deployment.stop()

    def job(self, number: int, host: int, children: int, engine: Engine) -> AggregationPlan:
        """A plan in which all children are one host."""
        made = star_plan(engine, 736, children)
        at_server = {"name": SERVER, "address": f"{self._bed.address(SERVER)}:{PORT}"}
        address = self._bed.address(f"w{host}")
        workers = [worker.model_copy(update={"address": address}) for worker in made.workers]
        job = made.job.model_copy(update={"id": number, "secret": f"{number:064x}"})
        nodes = [made.nodes[0].model_copy(update=at_server)]
        return made.model_copy(update={"job": job, "nodes": nodes, "workers": workers})

    def serve(self, job_plan: AggregationPlan, quota_bytes: float | None = None) -> None:
        """Makes the daemon serve a job, afresh if it did before."""
        number = job_plan.job.id
        if number in {job["job"] for job in self.daemon.ask("status")["jobs"]}:
            self._deployment.remove(number)
        self._deployment.add(job_plan, {} if quota_bytes is None else {"bytes_per_second": round(quota_bytes)})

    def serve_tcp(self) -> Server:
        """Starts the server of `coexistence.load` beside the daemon; it ends with the bed at the latest."""
        module = [sys.executable, "-m", "wiresum.bench.coexistence.load"]
        server = start_server(self._bed, SERVER, [*module, "serve", self._bed.address(SERVER), str(PORT)], "tcp")
        server.await_ready()
        return server

    def begin(
        self, host: int, task: dict[str, Any], module: str = "wiresum.bench.isolation.load"
    ) -> subprocess.Popen[bytes]:
        """Starts a load at a host; `finish` waits for what came of it."""
        command = [sys.executable, "-m", module]
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        load = self._bed.spawn(f"w{host}", command, **pipes)
        assert load.stdin is not None, "it was started with a pipe"
        load.stdin.write(json.dumps({**task, "address": self._bed.address(SERVER), "port": PORT}).encode())
        load.stdin.close()
        load.stdin = None
        return load


def finish(load: subprocess.Popen[bytes], seconds: float) -> dict[str, Any]:
    """What a load has measured.

    Raises:
        TestbedError: it failed.
    """
    output, errors = load.communicate(timeout=seconds + LOAD_GRACE_S)
    if load.returncode != 0:
        raise TestbedError(f"the load of the benchmark failed: {errors.decode(errors='replace').strip()[-500:]}")
    measured: dict[str, Any] = json.loads(output)
    return measured
