"""Jobs of a workload in a testbed, in turns: the ranks of each are processes of their own, all there from the start."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path

from wiresum.circuits.device import Driver
from wiresum.circuits.drivers import connect
from wiresum.document import write_text
from wiresum.errors import TestbedError
from wiresum.gates.listener import Gates
from wiresum.plan.aggregation_plan import AggregationPlan
from wiresum.plan.choices import DEFAULT_MTU_BYTES, SwitchEngine
from wiresum.plan.incarnation import next_incarnation
from wiresum.plan.schedule import Schedule
from wiresum.plan.shared import SharedNetwork
from wiresum.testbed import Testbed
from wiresum.testbed.echo import echoes
from wiresum.testbed.environment import BACKEND_VARIABLE, worker_environment
from wiresum.testbed.networks import MASTER_PORT, xdp_nodes
from wiresum.testbed.run import PIPED, attend
from wiresum.testbed.traffic import LinkTraffic
from wiresum.topology.circuits import optical_switches
from wiresum.topology.model import Topology
from wiresum.topology.optical import Circuit
from wiresum.turns.driver import TurnsDriver, plans_of, secrets_of
from wiresum.turns.light import Light
from wiresum.turns.nodes import Nodes
from wiresum.turns.online import Online, OnlineDriver
from wiresum.turns.ports import all_circuits
from wiresum.turns.stage import Seen
from wiresum.workload.model import Workload, WorkloadJob

Sink = Callable[[int, int, bool, str], None]
"""Takes job, rank, whether it is standard error, and a line."""
RANK = (sys.executable, "-m", "wiresum.turns.rank")
MOST_SAID = 500
"""Letters of what ranks said last that an error repeats."""
PROBE_S = 0.5
"""Seconds that a circuit with light has to carry an echo: on a busy machine processes wait for tens of milliseconds."""


@dataclass(frozen=True)
class LiveRun:
    """How the jobs of a schedule have run.

    Attributes:
        seen: by the driver.
        exit_codes: of each job's ranks.
        traffic: what crossed each link.
        schedule: what was carried out.
    """

    seen: Seen
    exit_codes: dict[int, list[int]]
    traffic: dict[str, LinkTraffic]
    schedule: Schedule

    @property
    def exit_code(self) -> int:
        """0, or the first that is not."""
        return next((code for codes in self.exit_codes.values() for code in codes if code), 0)


class TurnsBed:
    """A testbed for a schedule: nodes without jobs, a driver for its optical switches, and gates; use it with `with`.

    Args:
        topology: with optical switches.
        work: a schedule that will run there, or a scheduler that will be asked.
        protocol: by which the optical switches are ordered, of `wiresum circuits emulate`.
        name: of the testbed.
        mtu_bytes: of every interface.

    Raises:
        TestbedError: it cannot be made.
    """

    def __init__(
        self,
        topology: Topology,
        work: Schedule | Online,
        protocol: str = "emulated",
        name: str | None = None,
        mtu_bytes: int = DEFAULT_MTU_BYTES,
    ) -> None:
        self.topology, self.work, self.protocol = topology, work, protocol
        if isinstance(work, Online):
            self.plans: dict[int, AggregationPlan] = {}
            self._ways, network = work.ways(), work.network
            self.hosts = work.maker.hosts
        else:
            self.plans = plans_of(work)
            self._ways = list(self.plans.values())
            engine: SwitchEngine = "xdp" if any(map(xdp_nodes, self._ways)) else "udp"
            network = (
                SharedNetwork.of(work, topology, engine)
                if engine == "xdp"
                else SharedNetwork.with_spares(work, topology, all_circuits(topology))
            )
            self.hosts = {job: [worker.name for worker in plan.workers] for job, plan in self.plans.items()}
        self._network = network
        self.bed = Testbed(topology, shared=network, name=name, mtu_bytes=mtu_bytes, loopback=False)
        self._stack = ExitStack()
        self._incarnation = str(next_incarnation())

    def __enter__(self) -> TurnsBed:
        with ExitStack() as stack:
            stack.enter_context(self.bed)
            self.nodes = Nodes(self.bed.start_nodes(self._ways))
            for plan in self.plans.values():
                plan.write(self.bed.job_file(plan))
            self.light = stack.enter_context(closing(Light(self.topology, self._drivers(), self.probe)))
            for job, secret in self._secrets().items():
                write_text(self._secret_file(job), secret + "\n", "secret", TestbedError, is_secret=True)
            self.gates = stack.enter_context(Gates(str(self.bed.folder / "turns.sock"), self._secrets()))
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *raised: object) -> None:
        self._stack.close()

    def _secrets(self) -> dict[int, str]:
        return self.work.secrets if isinstance(self.work, Online) else secrets_of(self.work)

    def _secret_file(self, job: int) -> Path:
        return self.bed.folder / f"job-{job}.secret"

    def _drivers(self) -> dict[str, Driver]:
        names = [switch.name for switch in optical_switches(self.topology)]
        return {name: connect(self.bed.optical_switch(name).serve(self.protocol)) for name in names}

    def probe(self, circuit: Circuit) -> bool:
        """Whether the switch at one end of a circuit hears from the one at the other end."""
        (node, own), (_, far) = self._network.addresses(self._network.name(circuit)).items()
        return echoes(self.bed.network.namespaces[node], own, far, PROBE_S)

    def driver(self, tell: Callable[[str], None] = lambda line: None) -> TurnsDriver | OnlineDriver:
        """A driver of the schedule, or of what the scheduler says."""
        if isinstance(self.work, Online):
            return OnlineDriver(self.work, self.light, self.nodes, self.gates, tell=tell)
        return TurnsDriver(
            self.work, self.topology, self.light, self.nodes, self.gates, network=self._network, tell=tell
        )

    def spawn(
        self, job: int, rank: int, command: Sequence[str], environment: Mapping[str, str] | None = None
    ) -> subprocess.Popen[bytes]:
        """Starts a rank of a job, with what `init_process_group()` needs in its environment."""
        hosts = self.hosts[job]
        plan = {"WIRESUM_PLAN": str(self.bed.job_file(self.plans[job]))} if job in self.plans else {}
        own = {
            **worker_environment(self.bed.network, hosts, rank, MASTER_PORT + job),
            **plan,
            "WIRESUM_SECRET_FILE": str(self._secret_file(job)),
            "WIRESUM_TESTBED": self.bed.name,
            "WIRESUM_JOB": str(job),
            "WIRESUM_TURNS": self.gates.address,
            "WIRESUM_INCARNATION": self._incarnation,
            BACKEND_VARIABLE: "wiresum",
        }
        return self.bed.spawn(hosts[rank], command, {**own, **(environment or {})}, **PIPED)


def run_jobs(
    turns: TurnsBed,
    workload: Workload,
    command: Sequence[str],
    sink: Sink,
    tell: Callable[[str], None] = lambda line: None,
) -> LiveRun:
    """Runs a command at every rank of every job, in turns, and waits for all.

    Args:
        turns: a testbed that is up.
        workload: the schedule's, whose jobs are told to their ranks (`job_environment`).
        command: program and arguments.
        sink: takes each line of output as it comes.
        tell: takes a line about what happens.

    Raises:
        TestbedError: there is no such command.
        WiresumError: the driver cannot go on; the message says why.
    """
    if shutil.which(command[0]) is None:
        raise TestbedError(f"command `{command[0]}` was not found; give its path, or install it")
    jobs = dict(enumerate(workload.jobs, 1))
    before = turns.bed.link_traffic()
    # The testbed ends its processes before the threads that attend to them are waited for.
    threads = ThreadPoolExecutor(len(turns.hosts))
    attended: dict[int, Future[tuple[list[int], int | None]]] = {}
    for number, hosts in turns.hosts.items():
        told = job_environment(jobs[number])
        ranks = {rank: turns.spawn(number, rank, command, told) for rank in range(len(hosts))}
        attended[number] = threads.submit(_attend, turns.gates, number, ranks, sink)
    threads.shutdown(wait=False)
    driver = turns.driver(tell)
    seen = driver.run()
    exit_codes = {number: ended.result()[0] for number, ended in attended.items()}
    traffic = {link: now.since(before[link]) for link, now in turns.bed.link_traffic().items()}
    done = driver.schedule() if isinstance(driver, OnlineDriver) else turns.work
    assert isinstance(done, Schedule), "what is no schedule has an online driver"
    return LiveRun(seen, exit_codes, traffic, done)


def job_environment(job: WorkloadJob) -> dict[str, str]:
    """What a workload says of a job, for scripts that imitate it; others need none of it."""
    return {
        "WIRESUM_JOB_NAME": job.name,
        "WIRESUM_JOB_BYTES": str(job.bytes or 0),
        "WIRESUM_JOB_ITERATIONS": str(job.iterations),
        "WIRESUM_JOB_COMPUTE_S": str(job.compute_s),
    }


def _attend(
    gates: Gates, number: int, ranks: Mapping[int, subprocess.Popen[bytes]], sink: Sink
) -> tuple[list[int], int | None]:
    try:
        return attend(ranks, lambda rank, is_error, line: sink(number, rank, is_error, line))
    finally:
        gates.abandon(number)


def run_ranks(
    turns: TurnsBed, workload: Workload, tell: Callable[[str], None] = lambda line: None
) -> tuple[LiveRun, dict[int, list[dict[str, float]]]]:
    """Runs ranks without PyTorch (`wiresum.turns.rank`) at every job, and hears of each sum from each of them.

    Returns:
        The run, and what the ranks of each job said of their sums, in no order: `step`, `seconds`, `repetitions`.

    Raises:
        TestbedError: a rank failed, as where a sum is wrong.
    """
    lines: list[tuple[int, str]] = []
    live = run_jobs(turns, workload, RANK, lambda job, rank, is_error, line: lines.append((job, line)), tell)
    if live.exit_code:
        raise TestbedError(f"a rank failed: {' '.join(line for _, line in lines)[-MOST_SAID:]}")
    sums: dict[int, list[dict[str, float]]] = {job: [] for job in turns.hosts}
    for job, line in lines:
        if line.startswith("{"):
            sums[job].append(json.loads(line))
    return live, sums
