"""Two hosts, joined by veth, one core each: where `wiresum bench aggregator --engines` measures.

The aggregator's host is all on core 0: its interface receives in a kernel thread of its own (threaded NAPI) that is
pinned there, and so is the daemon. The generator's host is on core 1, and so is the relay, if there is one. All these
threads are at real-time priority, so that neighbours hardly count, and the scheduler's own account of them, in
nanoseconds, is the CPU time that a packet costs.
"""

from __future__ import annotations

import json
import os
import re
import statistics
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, Self

from wiresum import wire
from wiresum.bench.aggregator import relay as aggregator_relay
from wiresum.deploy.deployment import Deployment
from wiresum.deploy.hosts import ThisHost
from wiresum.errors import SupportError, TestbedError
from wiresum.plan.aggregation_plan import AggregationPlan
from wiresum.testbed import xdp_pass
from wiresum.testbed.layout import Port

NODE_CORE, LOAD_CORE = 0, 1
PRIORITY = 10
"""Real-time, round robin: the receiving thread and the daemon take turns as they sleep, or after 100 ms."""
LOAD_PORT_PRIORITY = 11
"""Above the generator's, which must not keep results waiting until the ring of its interface is full."""
RELAY_PRIORITY = 9
"""Below the generator's, so that a window is passed on at once and not packet by packet."""
Feed = Literal["skb", "frames"]
"""What the aggregator's port is given: socket buffers, as veth has it, or frames, as a network card's driver has them
(see `aggregator_relay`)."""
NODE_ADDRESS, LOAD_ADDRESS = "10.98.0.1", "10.98.0.2"
PREFIX = 24
MTU_BYTES = 3200
"""At first; then that of one packet."""
TCP_IPV4_BYTES = 52
"""Headers with time stamps; UDP's are shorter."""
NO_MERGING_BYTES = 64
"""A limit on merged packets that is below any packet of ours."""
OFFLOADS = ("gso", "tso", "tx-udp-segmentation", "sg")
COMMAND_TIMEOUT_S = 30
LOAD_GRACE_S = 30.0
"""What a generator may take beyond its time of sending: start-up, joining, draining."""
PINGS = 200
NANOSECONDS = 1e-9


class TwoHosts:
    """The namespaces, for a `with` block; `measure` runs an aggregator and a load once.

    Args:
        offloads: leave segmentation and merging on, as hosts have them; otherwise every engine sees wire packets.
        feed: what the aggregator's port is given; frames are for programs of XDP, AF_XDP's included.
    """

    def __init__(self, offloads: bool = False, feed: Feed = "skb") -> None:
        self._offloads = offloads
        self._has_relay = feed == "frames"
        token = f"{os.getpid() % 10**6}{feed[0]}"
        self.node, self.relay, self.load = (f"ws-bench{token}-{host}" for host in ("node", "relay", "load"))
        self.node_port, self.load_port = f"wsn{token}", f"wsl{token}"
        self.relay_ports = f"wsrn{token}", f"wsrl{token}"

    def __enter__(self) -> Self:
        if (os.cpu_count() or 1) <= max(NODE_CORE, LOAD_CORE):
            raise SupportError("the aggregator and its load need a core each; this machine has one")
        try:
            self._build()
        except BaseException:
            self._remove()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._remove()

    def _build(self) -> None:
        for namespace in self._namespaces():
            run(["ip", "netns", "add", namespace])
        if self._has_relay:
            to_node, to_load = self.relay_ports
            pair((self.node, self.node_port), (self.relay, to_node))
            pair((self.relay, to_load), (self.load, self.load_port))
            aggregator_relay.connect(self.relay, to_node, to_load)
        else:
            pair((self.node, self.node_port), (self.load, self.load_port))
        for namespace, port, address in self._ends():
            run(["ip", "-n", namespace, "addr", "add", f"{address}/{PREFIX}", "dev", port])
            self._set_offloads(namespace, port)
        with xdp_pass.loaded() as program:
            xdp_pass.attach(program, Port("load", self.load, self.load_port, 0))
        pin(napi_threads(self.load_port), LOAD_CORE, LOAD_PORT_PRIORITY)
        if self._has_relay:
            pin([thread for port in self.relay_ports for thread in napi_threads(port)], LOAD_CORE, RELAY_PRIORITY)

    def _namespaces(self) -> list[str]:
        return [self.node, self.load, *([self.relay] if self._has_relay else [])]

    def _ends(self) -> list[tuple[str, str, str]]:
        return [(self.node, self.node_port, NODE_ADDRESS), (self.load, self.load_port, LOAD_ADDRESS)]

    def _set_offloads(self, namespace: str, port: str) -> None:
        """Merging stays on in name (see `pair`), but nothing is small enough for it.

        A frame has no room for the note that its checksum is still to be made, as hellos' are.
        """
        if self._has_relay:
            run(["ip", "netns", "exec", namespace, "ethtool", "-K", port, "tx", "off"])
        if self._offloads:
            return
        for feature in OFFLOADS:
            run(["ip", "netns", "exec", namespace, "ethtool", "-K", port, feature, "off"])
        if namespace == self.node:
            limit = str(NO_MERGING_BYTES)
            run(["ip", "-n", namespace, "link", "set", port, "gro_max_size", limit])

    def _remove(self) -> None:
        for namespace in self._namespaces():
            subprocess.run(
                ["ip", "netns", "del", namespace], capture_output=True, check=False, timeout=COMMAND_TIMEOUT_S
            )

    def measure(self, plan: AggregationPlan, folder: Path, task: dict[str, Any]) -> dict[str, Any]:
        """Starts the plan's aggregator, sends it the load, and ends it.

        Args:
            plan: a star whose workers all are the generator.
            folder: for the plan's file and the daemon's output.
            task: `window`, `rate` and `seconds` of the load.

        Returns:
            The generator's figures, with `cpu_s` of the aggregator's side, `core_busy_s` of its core whoever used it,
            and the aggregator's `counters`.
        """
        self._set_mtu(4 * plan.job.values_per_packet + wire.HEADER_LEN + TCP_IPV4_BYTES)
        deployment = Deployment(ThisHost(folder, ["ip", "netns", "exec", self.node], [self.node_port]), plan)
        deployment.start()
        (daemon,) = deployment.daemons.values()
        try:
            threads = [*napi_threads(self.node_port), *tasks(daemon.process.pid)]
            pin(threads, NODE_CORE)
            before, busy = cpu_s(threads), core_busy_s(NODE_CORE)
            served = self._generate(plan, task)
            served["cpu_s"] = cpu_s(threads) - before
            served["core_busy_s"] = core_busy_s(NODE_CORE) - busy
        finally:
            counters = deployment.stop()
        served["counters"] = counters[daemon.node.name]
        return served

    def _set_mtu(self, mtu_bytes: int) -> None:
        """One packet fills one frame, or TCP would send several small ones in one segment."""
        for namespace, port, _ in self._ends():
            run(["ip", "-n", namespace, "link", "set", port, "mtu", str(mtu_bytes)])

    def _generate(self, plan: AggregationPlan, task: dict[str, Any]) -> dict[str, Any]:
        program = [sys.executable, "-m", "wiresum.bench.aggregator.load", str(LOAD_CORE), str(PRIORITY)]
        request = json.dumps({"plan_json": plan.to_json(), **task})
        done = subprocess.run(
            ["ip", "netns", "exec", self.load, *program],
            input=request,
            capture_output=True,
            text=True,
            timeout=task["seconds"] + LOAD_GRACE_S,
            check=False,
        )
        if done.returncode != 0:
            raise TestbedError(f"the generator failed: {done.stderr.strip()[-500:]}")
        served: dict[str, Any] = json.loads(done.stdout)
        return served

    def direct_round_trip_us(self, payload_bytes: int) -> float:
        """Median round trip of an echo request of this size between the two kernels."""
        command = ["ping", "-n", "-c", str(PINGS), "-i", "0.002", "-s", str(payload_bytes), NODE_ADDRESS]
        output = run(["ip", "netns", "exec", self.load, "taskset", "-c", str(LOAD_CORE), *command])
        times = [float(value) * 1e3 for value in re.findall(r"time=([\d.]+) ms", output)]
        if not times:
            raise TestbedError(f"no echo came back: {output.strip()[-200:]}")
        return statistics.median(times)


def pair(one: tuple[str, str], other: tuple[str, str]) -> None:
    """Joins two namespaces by a veth; each end is a namespace and a name.

    Both ends come up, and receive in a kernel thread of their own, for which a veth needs merging on.
    """
    (near, near_port), (far, far_port) = one, other
    ends = ["type", "veth", "peer", "name", far_port, "mtu", str(MTU_BYTES), "netns", far]
    run(["ip", "-n", near, "link", "add", near_port, "mtu", str(MTU_BYTES), *ends])
    for namespace, port in (one, other):
        run(["ip", "-n", namespace, "link", "set", port, "up"])
        run(["ip", "netns", "exec", namespace, "ethtool", "-K", port, "gro", "on"])
        inside(namespace, f"echo 1 > /sys/class/net/{port}/threaded")


def run(command: list[str]) -> str:
    """Runs a command and returns its output.

    Raises:
        SupportError: the program is not installed.
        TestbedError: it failed; the message has its words.
    """
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=COMMAND_TIMEOUT_S)
    except FileNotFoundError as missing:
        raise SupportError(f"{missing.filename} is not installed (iproute2, ethtool, iputils-ping)") from missing
    if done.returncode != 0:
        raise TestbedError(f"`{' '.join(command)}` failed: {(done.stderr or done.stdout).strip()}")
    return done.stdout


def inside(namespace: str, script: str) -> None:
    """Runs a line of shell in a namespace, with its own view of /sys."""
    run(["ip", "netns", "exec", namespace, "sh", "-c", script])


def napi_threads(interface: str) -> list[int]:
    """The kernel threads in which an interface receives; empty before it does."""
    prefix = f"napi/{interface}-"
    return [int(entry.parent.name) for entry in comms() if read(entry).startswith(prefix)]


def comms() -> Iterator[Path]:
    """Names of all processes."""
    return Path("/proc").glob("[0-9]*/comm")


def read(path: Path) -> str:
    """The content of a file of /proc; empty if its process has ended."""
    try:
        return path.read_text()
    except OSError:
        return ""


def tasks(process: int) -> list[int]:
    """The threads of a process."""
    return [int(entry.name) for entry in Path(f"/proc/{process}/task").iterdir()]


def pin(threads: list[int], core: int, priority: int = PRIORITY) -> None:
    """Keeps threads on a core, ahead of neighbours."""
    for thread in threads:
        os.sched_setaffinity(thread, {core})
        os.sched_setscheduler(thread, os.SCHED_RR, os.sched_param(priority))


def cpu_s(threads: list[int]) -> float:
    """CPU time of threads, as the scheduler accounts for it."""
    return sum(int(Path(f"/proc/{thread}/schedstat").read_text().split()[0]) for thread in threads) * NANOSECONDS


def core_busy_s(core: int) -> float:
    """Time in which a core was not idle, whoever used it, interrupts included; in ticks of the clock."""
    line = next(line for line in Path("/proc/stat").read_text().splitlines() if line.startswith(f"cpu{core} "))
    user, nice, system, _idle, _iowait, irq, softirq, steal = (int(field) for field in line.split()[1:9])
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")
