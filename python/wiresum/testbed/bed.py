"""The testbed: a topology, and optionally a plan, as something in which processes can be started."""

import atexit
import os
import signal
import subprocess
import threading
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn, Self

from wiresum.deploy.daemon import start_daemon
from wiresum.deploy.deployment import Deployment
from wiresum.errors import TestbedError, TopologyError
from wiresum.plan.aggregation_plan import AggregationPlan
from wiresum.plan.choices import DEFAULT_LOSS_SEED, DEFAULT_MTU_BYTES, Transport
from wiresum.plan.shared import SharedNetwork
from wiresum.testbed import processes, records
from wiresum.testbed.environment import worker_environment
from wiresum.testbed.fabric import SwitchedNetwork
from wiresum.testbed.loss import LossCount
from wiresum.testbed.networks import LoopbackNetwork, NamespaceNetwork, Network, why_no_namespaces
from wiresum.testbed.optical import OpticalSwitch
from wiresum.testbed.traffic import LinkTraffic
from wiresum.topology.circuits import optical_switches
from wiresum.topology.model import Topology

ENDING_SIGNALS = (signal.SIGTERM, signal.SIGHUP)
"""Besides SIGINT, which Python turns into KeyboardInterrupt by itself."""


class Testbed:
    """A network of namespaces with shaped links, or of loopback processes where namespaces are not allowed.

    It exists from `up()` to `down()`; use it in a `with` statement. Whatever ends the process, nothing stays: normal
    end, exceptions, SIGINT, SIGTERM and SIGHUP clean up at once, and after SIGKILL the next testbed does.

    Args:
        topology: the network.
        plan: has a daemon at each of its nodes; `deployment` starts, asks and ends them.
        name: distinguishes testbeds that run at the same time; by default made from topology and process.
        mtu_bytes: of every interface.
        loopback: True: never use namespaces; False: always; None: if this process may.
        loss_seed: chooses the packets that lossy links lose.
        later: plans that may take the plan's place (`Deployment.replace`) over other circuits of optical switches.
        shared: instead of a plan: switches and servers serve no job until one comes (`start_nodes`).
        in_kernel: nodes whose ports XDP programs may run on besides those of the plan.
        node_threads: threads that share the jobs at each node in user space; None: as the daemons choose.
        transport: what workers' packets travel by; with `af_xdp` the testbed leaves their interfaces without a program.

    Example:
        >>> with Testbed(star(workers=2)) as bed:  # doctest: +SKIP
        ...     bed.spawn("w0", ["ping", "-c", "1", bed.address("w1")]).wait()
        0
    """

    __test__ = False  # not a test, whatever pytest thinks of the name

    def __init__(
        self,
        topology: Topology,
        plan: AggregationPlan | None = None,
        *,
        name: str | None = None,
        mtu_bytes: int = DEFAULT_MTU_BYTES,
        loopback: bool | None = None,
        loss_seed: int = DEFAULT_LOSS_SEED,
        later: Sequence[AggregationPlan] = (),
        shared: SharedNetwork | None = None,
        in_kernel: Collection[str] = (),
        transport: Transport | None = None,
        node_threads: int | None = None,
    ) -> None:
        self.topology = topology.with_addresses(unlit=True)
        self._transport = transport
        self.name = name or f"{topology.name[:12].lower()}-{os.getpid()}"
        self.why_loopback = "asked for" if loopback else why_no_namespaces() if loopback is None else ""
        self.network = self._make_network(plan, mtu_bytes, loss_seed, later, shared, in_kernel=in_kernel)
        options = [] if node_threads is None else ["--threads", str(node_threads)]
        self._deployment = Deployment(self, plan, options) if plan else None
        self._children: list[subprocess.Popen[bytes]] = []
        self._claim: records.Claim | None = None
        self._master_port = 0
        self._record = records.Record(self.name, topology=topology.name, namespaces=dict(self.network.namespaces))
        self._previous_handlers: dict[signal.Signals, Any] = {}

    def _make_network(
        self,
        plan: AggregationPlan | None,
        mtu_bytes: int,
        loss_seed: int,
        later: Sequence[AggregationPlan],
        shared: SharedNetwork | None,
        *,
        in_kernel: Collection[str],
    ) -> Network:
        if self.why_loopback:
            return LoopbackNetwork(self.topology)
        if plan is not None and plan.fabric is not None:
            return SwitchedNetwork.of_plans(self.name, self.topology, [plan, *later], mtu_bytes, loss_seed=loss_seed)
        if shared is not None:
            frames, in_kernel = shared.frames(), shared.in_kernel()
            return SwitchedNetwork(self.name, self.topology, frames, mtu_bytes, in_kernel, loss_seed=loss_seed)
        if optical_switches(self.topology):
            raise TopologyError(
                f"topology {self.topology.name} has optical switches, which only a plan whose switches sum can use; "
                "make one for a lit network (`wiresum topology lit`, `wiresum plan --switched auto`)"
            )
        bare = [worker.name for worker in plan.workers] if plan and self._transport == "af_xdp" else []
        if bare and any(link.bandwidth_bps or link.reverse_bandwidth_bps for link in self.topology.links):
            raise TopologyError(
                "AF_XDP frames of workers pass the queues that limit a testbed's links: give the links no rate, or the "
                "workers the transport `udp`"
            )
        return NamespaceNetwork(self.name, self.topology, plan, mtu_bytes, loss_seed, in_kernel=in_kernel, bare=bare)

    @property
    def left_out(self) -> list[str]:
        """What this testbed does not do that namespaces would."""
        return self.network.left_out

    @property
    def folder(self) -> Path:
        """Files of the running testbed: plan, logs, record."""
        if self._claim is None:
            raise TestbedError(f"testbed {self.name} is not up; use it in a `with` statement")
        return self._claim.folder

    def up(self) -> None:
        """Makes everything; on failure, nothing stays.

        Raises:
            TestbedError: it cannot be made, or does not deliver.
            DeploymentError: a daemon does not start.
            SupportError: this machine lacks what it needs.
        """
        records.remove_leftovers()
        self._claim = records.claim(self.name, self.network.namespaces.values())
        atexit.register(self.down)
        self._handle_signals()
        try:
            self._record.write(self.folder)
            self.network.create()
            self._master_port = self.network.master_port()
            if self._deployment:
                self._deployment.start()
        except BaseException:
            self.down()
            raise

    def down(self) -> None:
        """Ends the processes and removes everything. Does nothing when it is down already."""
        if self._claim is None:
            return
        claimed, self._claim = self._claim, None
        self._ignore_signals()
        try:
            self._record.clear_up()
            claimed.drop()
        finally:
            self._release()

    def keep(self) -> None:
        """Leaves everything running when this process ends, until `wiresum testbed down`."""
        self._record.kept = True
        self._record.write(self.folder)
        if self._claim:
            self._claim.keep()
            self._claim = None
        self._release()

    def __enter__(self) -> Self:
        self.up()
        return self

    def __exit__(self, *_: object) -> None:
        self.down()

    def spawn(
        self, node: str, command: Sequence[str], environment: Mapping[str, str] | None = None, **options: Any
    ) -> subprocess.Popen[bytes]:
        """Starts a command at a node, in a session of its own. It ends with the testbed at the latest.

        Args:
            node: name of the node.
            command: program and arguments.
            environment: variables beyond those of this process.
            options: passed to `subprocess.Popen`.

        Raises:
            TopologyError: there is no such node.
            TestbedError: the testbed is not up.
        """
        self.topology.node(node)
        folder = self.folder
        marked = {**os.environ, **(environment or {}), processes.TOKEN_VARIABLE: self._record.token}
        line = self.network.command(node, list(command))
        child = subprocess.Popen(line, env=marked, start_new_session=True, **options)
        self._children.append(child)
        self._record.processes.append(processes.identify(child.pid))
        self._record.write(folder)
        return child

    def spawn_worker(
        self, rank: int, command: Sequence[str], environment: Mapping[str, str] | None = None, **options: Any
    ) -> subprocess.Popen[bytes]:
        """As `spawn`, at the worker of that rank, with what `init_process_group()` needs in its environment."""
        own = self.worker_environment(rank)
        return self.spawn(self.workers[rank], command, {**own, **(environment or {})}, **options)

    def worker_environment(self, rank: int) -> dict[str, str]:
        """The variables that `spawn_worker` sets."""
        plan = self._deployment and self._deployment.plan_file
        return {
            **worker_environment(self.network, self.workers, rank, self._master_port),
            "WIRESUM_TESTBED": self.name,
            **({"WIRESUM_PLAN": str(plan)} if plan else {}),
            **({"WIRESUM_TRANSPORT": self._transport} if self._transport else {}),
        }

    @property
    def workers(self) -> list[str]:
        """Names of the workers in rank order: the plan's, else the topology's."""
        return [worker.name for worker in (self.plan.workers if self.plan else self.topology.workers)]

    def address(self, node: str) -> str:
        """IP address of a host or summing switch."""
        return self.network.address(node)

    def link_traffic(self) -> dict[str, LinkTraffic]:
        """What has crossed each link since the testbed came up, by link id; empty on loopback."""
        return self.network.traffic()

    def optical_switch(self, name: str) -> OpticalSwitch:
        """An optical switch: its device, its light, and addresses for drivers.

        Raises:
            TestbedError: this testbed has none of that name.
        """
        found = self.network.optical_switches.get(name)
        if found is None:
            known = ", ".join(self.network.optical_switches) or "none while it is down"
            raise TestbedError(f"testbed {self.name} has no optical switch {name}; it has {known}")
        return found

    def link_losses(self) -> dict[str, tuple[LossCount | None, LossCount | None]]:
        """What was lost on purpose, by lossy link: from source to target, and back."""
        return self.network.losses()

    def link_bytes(self) -> dict[str, tuple[int, int]]:
        """Bytes on each link, from source to target and back, Ethernet headers included."""
        return {link: (seen.forward.bytes, seen.backward.bytes) for link, seen in self.link_traffic().items()}

    def start_nodes(self, plans: Sequence[AggregationPlan]) -> dict[str, Path]:
        """Starts a daemon at each switch and server of plans that share the network; none of them serves a job yet.

        A daemon learns from its first plan what carries packets, so it is given one and gives it up again.

        Returns:
            The control socket of each daemon, by the node's name.

        Raises:
            DeploymentError: a daemon does not start; the message has its node and its last words.
        """
        firsts = {node.name: (node, plan) for plan in reversed(plans) for node in plan.nodes}
        daemons = {}
        for name, (node, plan) in firsts.items():
            file = self.folder / f"{name}-first.json"
            plan.write(file)
            daemons[name] = start_daemon(self, node, self.folder / f"{name}.log", ["--plan", str(file)])
        for name, daemon in daemons.items():
            daemon.await_ready()
            daemon.ask("remove", job=firsts[name][1].job.id)
        return {name: daemon.socket for name, daemon in daemons.items()}

    def job_file(self, plan: AggregationPlan) -> Path:
        """Where the plan of one of several jobs is, for its workers."""
        return self.folder / f"job-{plan.job.id}.json"

    @property
    def deployment(self) -> Deployment:
        """The daemons of the plan.

        Raises:
            TestbedError: this testbed has no plan.
        """
        if self._deployment is None:
            raise TestbedError(f"testbed {self.name} has no plan, and so no daemons; make it with one")
        return self._deployment

    @property
    def plan(self) -> AggregationPlan | None:
        """The plan, with the addresses and engines of this testbed."""
        return self._deployment.plan if self._deployment else None

    @property
    def plan_file(self) -> Path:
        """The plan that daemons and workers read."""
        return self.deployment.plan_file

    def interfaces(self, node: str) -> list[str]:
        """Names of a node's interfaces."""
        return self.network.interfaces(node)

    def adapt(self, plan: AggregationPlan) -> AggregationPlan:
        """The plan with the addresses and engines of this testbed.

        Raises:
            TestbedError: the network was not made for the plan.
        """
        return self.network.adapt(plan)

    def prepare(self, plan: AggregationPlan) -> None:
        """Lights the circuits that a plan is for."""
        self.network.light_up(plan)

    def _handle_signals(self) -> None:
        """Turns signals that would end this process into an exception, unless the caller handles them itself."""
        if threading.current_thread() is not threading.main_thread():
            return
        for number in ENDING_SIGNALS:
            if signal.getsignal(number) is signal.SIG_DFL:
                self._previous_handlers[number] = signal.signal(number, _exit_on_signal)

    def _ignore_signals(self) -> None:
        """Clearing up must not be interrupted half-way by a second Ctrl-C."""
        if threading.current_thread() is not threading.main_thread():
            return
        for number in (signal.SIGINT, *ENDING_SIGNALS):
            self._previous_handlers.setdefault(number, signal.getsignal(number))
            signal.signal(number, signal.SIG_IGN)

    def _release(self) -> None:
        """Gives back what `up` took from this process."""
        for child in self._children:
            child.poll()
        self.network.close()
        atexit.unregister(self.down)
        for number, handler in self._previous_handlers.items():
            signal.signal(number, handler)
        self._previous_handlers.clear()


def _exit_on_signal(number: int, _frame: FrameType | None) -> NoReturn:
    raise SystemExit(128 + number)
