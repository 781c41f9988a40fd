"""Scenarios of which the simulator's speed is measured: each written as a file, as a user would."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

from wiresum.plan.aggregation_plan import LANE_BYTES, AggregationPlan
from wiresum.plan.choices import Policy
from wiresum.plan.job import Job, values_for_mtu
from wiresum.plan.options import PlanOptions
from wiresum.planners import plan
from wiresum.topology.generators.fat_tree import fat_tree
from wiresum.topology.generators.leaf_spine import leaf_spine
from wiresum.topology.generators.programmable import SERVER_RATE_BPS, cable
from wiresum.topology.model import Node, Topology

MODEL_BYTES = 221_000_000
"""Gradient of GOAT's round: 35 workers, 64-packet trains, 4 hops."""
GOAT_WORKERS = 35
MTU_BYTES = 1500
HOSTS_OF_A_JOB = 8
"""Seven workers and their server, spread over the network at random."""


@dataclass(frozen=True)
class Load:
    """A scenario and what is special about it.

    Attributes:
        name: for tables.
        text: the scenario file.
        files: what it refers to, by name: topologies and plans.
    """

    name: str
    text: str
    files: dict[str, str]

    def write(self, folder: Path) -> Path:
        """Writes everything into a folder; the scenario's path."""
        for name, content in self.files.items():
            (folder / name).write_text(content, encoding="utf-8")
        path = folder / "scenario.toml"
        path.write_text(self.text, encoding="utf-8")
        return path


def goat_round(policy: str, model_bytes: int = MODEL_BYTES, train: int = 64) -> Load:
    """One round of 35 workers, each below a leaf of its own: every contribution makes four hops to the server."""
    topology = f"leaf-spine:leaves={GOAT_WORKERS + 1},spines=1,hosts_per_leaf=1,rate=10gbit,programmable=1"
    addressed = 'node = "spine0"\n' if policy == "exclusive" else ""
    server = "spine0" if policy == "pool" else "ps"
    text = f"""format = "wiresum-scenario/1"
topology = "{topology}"
fidelity = "trains"
train = {train}
[[job]]
bytes = {model_bytes}
window = 1024
mtu_bytes = {MTU_BYTES}
[job.program]
policy = "{policy}"
server = "{server}"
slots = 4096
timeout_s = 0.1
{addressed}"""
    return Load(f"trains: {policy}, {GOAT_WORKERS} workers × {model_bytes / 1e6:.0f} MB", text, {})


@dataclass(frozen=True)
class Jobs:
    """What the jobs of a load do.

    Attributes:
        fidelity: at which they are simulated.
        policy: of their slots.
        bytes: of each collective.
        rounds: collectives.
        window: packets in flight.
        pace: computing times, as a line of the scenario.
        is_checked: whether packets hold values, and sums are compared.
    """

    fidelity: str
    policy: Policy
    bytes: int
    rounds: int = 1
    window: int = 64
    pace: str = ""
    is_checked: bool = False


PACED = 'compute = { kind = "uniform", least_s = 0.0, most_s = 0.01 }\n'


def fat_tree_packets(k: int, job_bytes: int) -> Load:
    """Jobs of eight hosts each, placed at random over a fat-tree's k³/4 hosts, packet by packet."""
    network = numbered(fat_tree(k, rate_bps=100e9, programmable=0.0))
    groups = placed(network, HOSTS_OF_A_JOB, seed=1)
    return _planned(f"packets: fat-tree, {k**3 // 4:,} hosts", network, groups, Jobs("packets", "pool", job_bytes))


def star_packets(job_bytes: int, window: int) -> Load:
    """Eight hosts around a switch, whose packets hold values."""
    network = numbered(leaf_spine(leaves=1, spines=1, hosts_per_leaf=HOSTS_OF_A_JOB, programmable=0.0))
    groups = placed(network, HOSTS_OF_A_JOB, seed=1)
    name = f"memory: star, {job_bytes / 1e6:g} MB, window {window}"
    return _planned(name, network, groups, Jobs("packets", "pool", job_bytes, window=window, is_checked=True))


def flows_of_256_links(rounds: int) -> Load:
    """24 jobs of eight hosts, each at its own pace, on a leaf-spine network of 256 links."""
    network = numbered(leaf_spine(leaves=8, spines=8, hosts_per_leaf=24, programmable=0.0))
    groups = placed(network, HOSTS_OF_A_JOB, seed=1)
    return _planned("flows: 256 links, 24 jobs", network, groups, Jobs("flows", "pool", 10_000_000, rounds, pace=PACED))


def flows_of_a_fat_tree(k: int, jobs: int) -> Load:
    """Jobs that share all hosts of a fat-tree: workers below two servers, these below a third."""
    network = numbered(fat_tree(k, programmable=0.0))
    groups = placed(network, k**3 // 4 // jobs, seed=1)[:jobs]
    name = f"flows: fat-tree, {k**3 // 4:,} hosts, {jobs} jobs"
    return _planned(name, network, groups, Jobs("flows", "cache", 100_000_000, pace=PACED))


def fragments(job_bytes: int) -> int:
    """Packets of values that a worker sends in a round."""
    return math.ceil(job_bytes / LANE_BYTES / values_for_mtu(MTU_BYTES))


def numbered(network: Topology) -> Topology:
    """A network whose hosts all are workers, with addresses."""
    nodes = [
        Node(name=node.name, kind="worker", address=f"10.{99 + index // 65_024}.{index // 254 % 256}.{index % 254 + 1}")
        if node.kind != "switch"
        else node
        for index, node in enumerate(network.nodes)
    ]
    return network.model_copy(update={"nodes": nodes})


def placed(network: Topology, size: int, seed: int) -> list[list[str]]:
    """The hosts in groups of this size, shuffled; those that are left over do nothing."""
    hosts = [node.name for node in network.workers]
    Random(seed).shuffle(hosts)
    return [hosts[begin : begin + size] for begin in range(0, len(hosts) - size + 1, size)]


def _planned(name: str, network: Topology, groups: Sequence[Sequence[str]], jobs: Jobs) -> Load:
    """A scenario whose jobs have plans of their own: the last hosts of a group sum."""
    servers = {host for group in groups for host in _servers(group)}
    nodes = [_server(node) if node.name in servers else node for node in network.nodes]
    network = network.model_copy(update={"nodes": nodes})
    addresses = {node.name: node.address for node in network.nodes}
    files = {"network.json": network.to_json()}
    lines = [f'format = "wiresum-scenario/1"\ntopology = "network.json"\nfidelity = "{jobs.fidelity}"\n']
    lines.append("check_sums = true\n" if jobs.is_checked else "")
    for index, group in enumerate(groups):
        files[f"job{index}.json"] = _plan(index, group, addresses, jobs).to_json()
        lines.append(f'[[job]]\nname = "job{index}"\nplan = "job{index}.json"\n')
        lines.append(f"bytes = {jobs.bytes}\nrounds = {jobs.rounds}\n{jobs.pace}")
    return Load(name, "".join(lines), files)


def _servers(group: Sequence[str]) -> Sequence[str]:
    """One, or a root and two below it where one has too many children."""
    return group[-1:] if len(group) <= HOSTS_OF_A_JOB else group[-3:]


def _server(node: Node) -> Node:
    return Node(name=node.name, kind="ps", aggregation_rate_bps=SERVER_RATE_BPS, address=node.address)


def _plan(index: int, group: Sequence[str], addresses: Mapping[str, str | None], jobs: Jobs) -> AggregationPlan:
    """The job's own tree, planned as if its hosts were a network."""
    *below, root = _servers(group)
    workers = group[: len(group) - len(below) - 1]
    sums_at = {worker: below[rank % len(below)] if below else root for rank, worker in enumerate(workers)}
    nodes = [Node(name=worker, kind="worker", address=addresses[worker], sums_at=sums_at[worker]) for worker in workers]
    for name in (*below, root):
        server = Node(name=name, kind="ps", aggregation_rate_bps=SERVER_RATE_BPS, address=addresses[name])
        nodes.append(server.model_copy(update={"sums_at": None if name == root else root}))
    switch = Node(name="between", kind="switch")
    links = [cable(node.name, "between", None) for node in nodes]
    network = Topology(name="job", nodes=[*nodes, switch], links=links)
    job = Job(
        id=index + 1, secret=f"{index + 1:064x}", policy=jobs.policy, window=jobs.window, mtu_bytes=MTU_BYTES,
        gradient_bytes=jobs.bytes,
    )  # fmt: skip
    return plan(network, job, PlanOptions(engine="udp"), "direct")
