"""The two kinds of testbed: namespaces with shaped links, and, where those are not allowed, the loopback interface."""

import shutil
import socket
import subprocess
from collections.abc import Collection
from typing import Protocol

from wiresum.deploy.hosts import LOOPBACK, free_ports, on_loopback
from wiresum.errors import TestbedError
from wiresum.plan.aggregation_plan import AggregationPlan
from wiresum.plan.choices import DEFAULT_LOSS_SEED, XDP_ENGINES
from wiresum.testbed import delivery, namespaces, traffic, xdp_pass
from wiresum.testbed.layout import Layout, lay_out
from wiresum.testbed.loss import LossCount, LossyLinks
from wiresum.testbed.optical import OpticalSwitch
from wiresum.testbed.shaping import ifb_name
from wiresum.testbed.traffic import LinkTraffic
from wiresum.topology.model import Topology

MASTER_PORT = 29500
"""PyTorch's default; a namespace has every port to itself."""
PROBE_TIMEOUT_S = 5


class Network(Protocol):
    """What a testbed runs on.

    Attributes:
        namespaces: network namespaces by node; none on loopback.
        left_out: what this network does not do, for people.
        optical_switches: those of the topology, by name, while the network is there.
    """

    namespaces: dict[str, str]
    left_out: list[str]
    optical_switches: dict[str, OpticalSwitch]

    def create(self) -> None:
        """Makes it, and asserts that it delivers."""

    def adapt(self, plan: AggregationPlan) -> AggregationPlan:
        """The plan with the addresses and engines that this network has."""

    def light_up(self, plan: AggregationPlan) -> None:
        """Lights the circuits that a plan is for, and no others."""

    def command(self, node: str, command: list[str]) -> list[str]:
        """The command line that runs a command at a node."""

    def interfaces(self, node: str) -> list[str]:
        """Names of the node's interfaces."""

    def host_interface(self, node: str) -> str:
        """The interface that has `address(node)`."""

    def shaper(self, link: str, towards: str) -> tuple[str, str]:
        """Node and interface whose root qdisc limits a link's direction towards one of its ends.

        Raises:
            TestbedError: nothing does.
        """

    def address(self, node: str) -> str:
        """Address of a host."""

    def master_port(self) -> int:
        """A TCP port for the process group's store."""

    def traffic(self) -> dict[str, LinkTraffic]:
        """What has crossed each link."""

    def losses(self) -> dict[str, tuple[LossCount | None, LossCount | None]]:
        """What was lost on purpose, by lossy link and direction."""

    def close(self) -> None:
        """Ends what counts."""


class LaidOutNetwork:
    """What networks of namespaces share: they are as their layout says.

    Attributes:
        layout: names, wires and ports.
        namespaces: as in `Network`.
        left_out: nothing.
        optical_switches: as in `Network`.
    """

    def __init__(self, layout: Layout, spaces: dict[str, str], loss_seed: int) -> None:
        self._loss_seed = loss_seed
        self._lossy = LossyLinks()
        self.layout = layout
        self.namespaces = spaces
        self.left_out: list[str] = []
        self.optical_switches: dict[str, OpticalSwitch] = {}

    def light_up(self, plan: AggregationPlan) -> None:
        """Does nothing: this network has no optical switches."""

    def command(self, node: str, command: list[str]) -> list[str]:
        """Runs it in the node's namespace."""
        return namespaces.command_inside(self.namespaces[node], command)

    def interfaces(self, node: str) -> list[str]:
        """Its ports."""
        return [port.interface for port in self.layout.ports(node)]

    def shaper(self, link: str, towards: str) -> tuple[str, str]:
        """The end at which the link is limited: its port, or the device that arrivals pass."""
        end = self.layout.wire(link).shaped_at
        return end.node, ifb_name(end.interface) if end.node == towards else end.interface

    def address(self, node: str) -> str:
        """As in the topology."""
        return self.layout.topology.node(node).address or ""

    def master_port(self) -> int:
        """The same in every testbed."""
        return MASTER_PORT

    def traffic(self) -> dict[str, LinkTraffic]:
        """Read at the shapers."""
        return traffic.read(self.layout)

    def lose(self) -> None:
        """Makes links lossy, once their namespaces are there."""
        self._lossy.apply(self.layout, self._loss_seed)

    def losses(self) -> dict[str, tuple[LossCount | None, LossCount | None]]:
        """Read from the programs."""
        return self._lossy.counts()

    def close(self) -> None:
        """Ends the counting of losses."""
        self._lossy.close()


class NamespaceNetwork(LaidOutNetwork):
    """Namespaces, veth pairs, bridges and shapers."""

    def __init__(
        self,
        name: str,
        topology: Topology,
        plan: AggregationPlan | None,
        mtu_bytes: int,
        loss_seed: int = DEFAULT_LOSS_SEED,
        *,
        in_kernel: Collection[str] = (),
        bare: Collection[str] = (),
    ) -> None:
        self._xdp_nodes = xdp_nodes(plan) | set(in_kernel)
        self._bare = bare
        layout = lay_out(name, topology, mtu_bytes, self._xdp_nodes)
        super().__init__(layout, layout.namespaces, loss_seed)

    def create(self) -> None:
        """Makes namespaces, links and shapers; puts a passing program opposite every port that will sum."""
        namespaces.create(self.layout)
        xdp_pass.attach_opposite(self.layout, self._xdp_nodes, self._bare)
        delivery.check(self.layout)
        self.lose()

    def adapt(self, plan: AggregationPlan) -> AggregationPlan:
        """Planned for these addresses already; but ports are made for XDP only where the first plan sums with it."""
        require_xdp_ports(plan, self._xdp_nodes)
        return plan

    def host_interface(self, node: str) -> str:
        """Its only port."""
        return self.interfaces(node)[0]


class LoopbackNetwork:
    """Processes of this host; aggregators in user space; nothing is shaped or counted."""

    def __init__(self, topology: Topology) -> None:
        self._topology = topology
        self.namespaces: dict[str, str] = {}
        self.optical_switches: dict[str, OpticalSwitch] = {}
        self.left_out = [
            "links are not shaped: everything shares the loopback interface",
            "gradients are summed in user space, not by XDP",
            "no traffic is counted",
        ]
        if any(link.loss or link.reverse_loss for link in topology.links):
            self.left_out.append("nothing is lost: links have no `loss`")

    def create(self) -> None:
        """Nothing to make."""

    def adapt(self, plan: AggregationPlan) -> AggregationPlan:
        """Every aggregator in user space on a free port of the loopback interface.

        Raises:
            TestbedError: switches sum in the plan.
        """
        if plan.fabric is not None:
            raise TestbedError("a plan whose switches sum needs links of its own; run as root, in namespaces")
        return on_loopback(plan)

    def light_up(self, plan: AggregationPlan) -> None:
        """Does nothing: this network has no optical switches."""

    def command(self, node: str, command: list[str]) -> list[str]:
        """Runs it as it is."""
        self._topology.node(node)
        return command

    def interfaces(self, node: str) -> list[str]:
        """The loopback interface."""
        self._topology.node(node)
        return ["lo"]

    def host_interface(self, node: str) -> str:
        """The loopback interface."""
        return self.interfaces(node)[0]

    def shaper(self, link: str, towards: str) -> tuple[str, str]:
        """There is none."""
        raise TestbedError(f"link {link} towards {towards} has no limit on loopback; run as root, in namespaces")

    def address(self, node: str) -> str:
        """The loopback address."""
        self._topology.node(node)
        return LOOPBACK

    def master_port(self) -> int:
        """A free one: the host's ports are everybody's."""
        return free_ports(1, socket.SOCK_STREAM)[0]

    def traffic(self) -> dict[str, LinkTraffic]:
        """Nothing is counted."""
        return {}

    def losses(self) -> dict[str, tuple[LossCount | None, LossCount | None]]:
        """Nothing is lost on purpose."""
        return {}

    def close(self) -> None:
        """Nothing counts."""


def xdp_nodes(plan: AggregationPlan | None) -> set[str]:
    """Nodes whose ports a program runs on."""
    return {node.name for node in (plan.nodes if plan else []) if node.engine in XDP_ENGINES}


def require_xdp_ports(plan: AggregationPlan, made_for: Collection[str]) -> None:
    """Asserts that a plan's programs run where the network's ports are made for them.

    Raises:
        TestbedError: one does not.
    """
    strange = sorted(xdp_nodes(plan) - set(made_for))
    if strange:
        raise TestbedError(
            f"this testbed has no ports for XDP at {strange[0]}; plan with `--engine udp`, or make the testbed with a "
            f"plan that sums in the kernel at {strange[0]}"
        )


def why_no_namespaces() -> str:
    """Why this process cannot make network namespaces, with the remedy; empty if it can."""
    missing = [tool for tool in ("ip", "tc", "unshare") if shutil.which(tool) is None]
    if missing:
        return f"{', '.join(missing)} not found: install iproute2 and util-linux"
    probe = ["unshare", "--net", "true"]
    done = subprocess.run(probe, capture_output=True, timeout=PROBE_TIMEOUT_S, text=True, check=False)
    return f"{done.stderr.strip()}: run as root" if done.returncode else ""
