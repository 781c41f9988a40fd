"""One server with a daemon, and hosts around it, for the benchmarks of the daemon as a service."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from wiresum.bench.aggregator.measure import star as star_plan
from wiresum.deploy import control
from wiresum.errors import SupportError, TestbedError
from wiresum.plan.aggregation_plan import AggregationPlan
from wiresum.plan.choices import Engine
from wiresum.plan.job import Job
from wiresum.plan.options import PlanOptions
from wiresum.planners import plan
from wiresum.testbed import Testbed
from wiresum.testbed.aggregators import READY_LINE, find_binary
from wiresum.topology.generators.star import star

PORT = 5747
SERVER = "switch"
MEMORY = "64MB"
"""Slots of two jobs of the benchmark, with room."""
LOAD_GRACE_S = 30.0
"""From the end of a load to the end of its process, on a busy machine."""
START_S = 30.0


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
        self._daemon: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self._bed.up()
        if self._bed.why_loopback:
            self._bed.down()
            raise SupportError(f"this benchmark needs network namespaces: {self._bed.why_loopback}")
        # The testbed's own aggregator has shown that packets are delivered; daemons come and go from here on.
        self._bed.stop_aggregators()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, raised: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()
        self._bed.down()

    @property
    def socket(self) -> Path:
        """The daemon's control socket."""
        return self._bed.folder / "control.sock"

    def start(self, engine: Engine, arguments: tuple[str, ...] = ()) -> float:
        """Starts the daemon without jobs; returns the seconds until it is ready to sum."""
        address = f"{self._bed.address(SERVER)}:{PORT}"
        line = [find_binary(), "--node", "0", "--engine", engine, "--listen", address, "--memory", MEMORY]
        line += ["--control", str(self.socket), *arguments]
        if engine == "xdp":
            line += [part for port in self._bed.network.interfaces(SERVER) for part in ("--interface", port)]
        log = self._bed.folder / "daemon.log"
        started = time.perf_counter()
        with log.open("wb") as errors:
            self._daemon = self._bed.spawn(SERVER, line, stdout=subprocess.PIPE, stderr=errors)
        assert self._daemon.stdout is not None, "it was started with a pipe"
        ready = self._daemon.stdout.readline()
        elapsed = time.perf_counter() - started
        if not ready.startswith(READY_LINE.encode()):
            raise TestbedError(f"the daemon did not start: {log.read_text()[-500:]}")
        return elapsed

    def each(self, engines: Iterable[Engine]) -> Iterator[Engine]:
        """One engine after the other, each with a daemon without jobs."""
        for engine in engines:
            self.start(engine)
            yield engine
            self.stop()

    def stop(self) -> None:
        """Ends the daemon, if there is one."""
        if self._daemon:
            self._daemon.terminate()
            self._daemon.wait(timeout=START_S)
            self._daemon = None

    def job(self, number: int, host: int, children: int, engine: Engine) -> AggregationPlan:
        """A plan in which all children are one host."""
        made = star_plan(engine, 736, children)
        node = made.nodes[0].model_copy(update={"address": f"{self._bed.address(SERVER)}:{PORT}"})
        address = self._bed.address(f"w{host}")
        workers = [worker.model_copy(update={"address": address}) for worker in made.workers]
        job = made.job.model_copy(update={"id": number, "secret": f"{number:016x}"})
        return made.model_copy(update={"job": job, "nodes": [node], "workers": workers})

    def serve(self, job_plan: AggregationPlan, quota_bytes: float | None = None) -> None:
        """Makes the daemon serve a job, afresh if it did before."""
        number = job_plan.job.id
        quota = {} if quota_bytes is None else {"bytes_per_second": round(quota_bytes)}
        if number in {job["job"] for job in control.ask(self.socket, "status")["jobs"]}:
            control.ask(self.socket, "remove", job=number)
        control.ask(self.socket, "add", plan=json.loads(job_plan.to_json()), quota=quota)

    def serve_tcp(self) -> subprocess.Popen[bytes]:
        """Starts the server of `coexistence_load` beside the daemon; it ends with the bed, or when it is terminated."""
        command = [
            sys.executable,
            "-m",
            "wiresum.bench.coexistence.load",
            "serve",
            self._bed.address(SERVER),
            str(PORT),
        ]
        server = self._bed.spawn(SERVER, command, stdout=subprocess.PIPE)
        assert server.stdout is not None, "it was started with a pipe"
        if server.stdout.readline().strip() != b"ready":
            raise TestbedError(f"nothing listens for TCP at {self._bed.address(SERVER)}:{PORT}")
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
        raise TestbedError(f"a load failed: {errors.decode(errors='replace').strip()[-500:]}")
    measured: dict[str, Any] = json.loads(output)
    return measured
