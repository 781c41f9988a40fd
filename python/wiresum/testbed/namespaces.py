"""Makes and removes the network namespaces of a layout with iproute2, and works inside them."""

import ctypes
import os
import shutil
import subprocess
import threading
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import TypeVar

from wiresum.errors import SupportError, TestbedError
from wiresum.testbed import neighbours, shaping
from wiresum.testbed.layout import NAMESPACE_PREFIX, Layout, Wire
from wiresum.topology.model import Node

NAMESPACE_DIRECTORY = Path("/run/netns")
"""Where iproute2 keeps named namespaces."""
CONFIGURATION_DIRECTORY = Path("/etc/netns")
"""Files in a namespace's folder here take the place of those in /etc for commands that run in it (ip-netns(8))."""
BRIDGE = "br0"
"""Bridge of every switch; it has the switch's address."""
HUB_PORT = "e0"
"""Port of every node at the hub; where there is none, hosts' only link is called so."""
CLONE_NEWNET = 0x4000_0000
COMMAND_TIMEOUT_S = 30
"""Limit of one batch; a healthy machine needs milliseconds."""

T = TypeVar("T")


def require_absent(namespaces: Iterable[str]) -> None:
    """Asserts that names are free, before they are recorded as ours.

    Raises:
        TestbedError: one is taken, by something that no testbed's record mentions.
    """
    taken = next((name for name in namespaces if (NAMESPACE_DIRECTORY / name).exists()), None)
    if taken:
        raise TestbedError(
            f"namespace {taken} exists and is not a testbed's; choose another `--name`, or `ip netns del {taken}`"
        )


def create(layout: Layout) -> None:
    """Makes everything in a layout; what exists already is an error, never reused.

    Bridges are made before links: the kernel puts a port into service at once if its number differs from its peer's,
    and after a second otherwise.

    Raises:
        TestbedError: iproute2 refused a command, which the message quotes.
    """
    _batch(["ip"], [f"netns add {namespace}" for namespace in layout.namespaces.values()])
    for node in layout.topology.nodes:
        if node.kind == "switch" and not layout.hub:
            _batch(["ip", "-n", layout.namespaces[node.name]], _bridge_commands(layout))
    if layout.hub:
        _silence(layout)
        _create_hub(layout)
    _batch(["ip"], [line for wire in layout.wires for line in _veth_commands(wire, layout.mtu_bytes)])
    for node in layout.topology.nodes:
        namespace = layout.namespaces[node.name]
        _batch(["ip", "-n", namespace], _node_commands(layout, node))
        _batch(["tc", "-n", namespace], _shaping_commands(layout, node))
        _write_hosts(layout, namespace)
    if layout.hub:
        _join_relays(layout)


def _join_relays(layout: Layout) -> None:
    """Links that lead through the hub: what comes in by one of the two ports goes out by the other."""
    relayed = [(wire, wire.relay) for wire in layout.wires if wire.relay]
    lines = [f"link set dev {port.interface} addrgenmode none up" for _, both in relayed for port in both]
    _batch(["ip", "-n", layout.hub], lines)
    commands = []
    for wire, (near, far) in relayed:
        for port, other, sender in ((near, far, wire.target), (far, near, wire.source)):
            rate_bps = wire.link.bandwidth_from(sender.node)
            if rate_bps is not None:
                commands += shaping.Shaper(port.interface, rate_bps).commands()
            commands += shaping.redirect_commands(port.interface, other.interface)
    _batch(["tc", "-n", layout.hub], commands)


def _silence(layout: Layout) -> None:
    """Turns IPv6 off, whose announcements would be counted with the gradients, unless nodes have addresses of it."""
    if any(":" in (node.address or "") for node in layout.topology.nodes):
        return
    for namespace in layout.namespaces.values():
        for scope in ("all", "default"):
            switch = Path(f"/proc/sys/net/ipv6/conf/{scope}/disable_ipv6")
            inside(namespace, partial(_write_if_there, switch, "1"))


def _write_if_there(file: Path, text: str) -> None:
    if file.exists():
        file.write_text(text)


def _create_hub(layout: Layout) -> None:
    """A switch for everything that is not gradient."""
    _batch(["ip"], [f"netns add {layout.hub}"])
    members = [node for node in layout.topology.nodes if node.address]
    links = [
        f"link add name h{index} mtu {layout.mtu_bytes} netns {layout.hub} type veth peer name {HUB_PORT} "
        f"mtu {layout.mtu_bytes} netns {layout.namespaces[node.name]}"
        for index, node in enumerate(members)
    ]
    ports = [f"link set dev h{index} master {BRIDGE} addrgenmode none up" for index in range(len(members))]
    _batch(["ip", "-n", layout.hub], _bridge_commands(layout))
    _batch(["ip"], links)
    _batch(["ip", "-n", layout.hub], ports)


def remove(namespaces: Iterable[str]) -> None:
    """Removes those of the namespaces that exist. Interfaces, bridges and shapers go with them."""
    ours = [name for name in namespaces if name.startswith(NAMESPACE_PREFIX)]
    _batch(["ip"], [f"netns del {name}" for name in ours if (NAMESPACE_DIRECTORY / name).exists()])
    for name in ours:
        shutil.rmtree(CONFIGURATION_DIRECTORY / name, ignore_errors=True)


def inside(namespace: str, function: Callable[[], T]) -> T:
    """Calls a function whose thread is in the namespace; sockets that it makes stay there.

    Raises:
        TestbedError: the namespace cannot be entered. What the function raises is passed on.
    """
    outcome: list[T] = []
    failure: list[BaseException] = []

    def enter() -> None:
        try:
            _set_namespace(namespace)
            outcome.append(function())
        except BaseException as raised:
            failure.append(raised)

    thread = threading.Thread(target=enter, name=f"in {namespace}")
    thread.start()
    thread.join()
    if failure:
        raise failure[0]
    return outcome[0]


def command_inside(namespace: str, command: list[str]) -> list[str]:
    """The command line that runs a command in the namespace, in the same process."""
    return ["ip", "netns", "exec", namespace, *command]


def run_tool(command: list[str], text: str = "") -> str:
    """Runs a tool of iproute2 and returns its output.

    Raises:
        SupportError: it is not installed.
        TestbedError: it failed.
    """
    try:
        done = subprocess.run(
            command, input=text, capture_output=True, text=True, timeout=COMMAND_TIMEOUT_S, check=False
        )
    except FileNotFoundError:
        raise SupportError(f"{command[0]} is not installed; install iproute2") from None
    except subprocess.TimeoutExpired:
        raise TestbedError(
            f"`{' '.join(command)}` did not end within {COMMAND_TIMEOUT_S} s; try again when the machine is less busy"
        ) from None
    if done.returncode != 0:
        raise TestbedError(f"`{' '.join(command)}` failed: {_failure(done.stderr, text)}")
    return done.stdout


def _batch(tool: list[str], lines: list[str]) -> None:
    if lines:
        run_tool([*tool, "-batch", "-"], "\n".join(lines) + "\n")


def _failure(stderr: str, text: str) -> str:
    """The tool's message, with the line of the batch that it is about."""
    reason = " ".join(stderr.split())
    _, _, number = stderr.strip().rpartition("Command failed -:")
    lines = text.splitlines()
    if number.isdigit() and 1 <= int(number) <= len(lines):
        return f"{reason} (`{lines[int(number) - 1]}`)"
    return reason


def _write_hosts(layout: Layout, namespace: str) -> None:
    """Nodes know each other's names; without, every program that looks up a peer's name waits for a name server."""
    named = [node for node in layout.topology.nodes if node.address]
    entries = [f"{node.address} {node.name}" for node in named]
    # Programs that listen on IPv6 (PyTorch's store) see IPv4 peers under this form of their addresses.
    entries += [f"::ffff:{node.address} {node.name}" for node in named if ":" not in (node.address or "")]
    folder = CONFIGURATION_DIRECTORY / namespace
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "hosts").write_text("\n".join(["127.0.0.1 localhost", "::1 localhost", *entries, ""]))


def _veth_commands(wire: Wire, mtu_bytes: int) -> list[str]:
    ends = wire.source, wire.target
    pairs = list(zip(ends, wire.relay, strict=True)) if wire.relay else [ends]
    # What crosses an optical switch is counted by frames, which bundles of them are not.
    limits = f"mtu {mtu_bytes} gso_max_segs 1" if wire.is_fibre else f"mtu {mtu_bytes}"
    return [
        f"link add name {one.interface} {limits} netns {one.namespace} type veth "
        f"peer name {other.interface} {limits} netns {other.namespace}"
        for one, other in pairs
    ]


def _bridge_commands(layout: Layout) -> list[str]:
    quiet = "stp_state 0 forward_delay 0 mcast_snooping 0"
    return [
        f"link add name {BRIDGE} mtu {layout.mtu_bytes} type bridge {quiet}",
        f"link set dev {BRIDGE} addrgenmode none up",
    ]


def _node_commands(layout: Layout, node: Node) -> list[str]:
    """Addresses and states; a switch bridges its ports."""
    commands = ["link set dev lo up"]
    ports = layout.ports(node.name)
    if layout.hub:
        return [*commands, *_routed_commands(layout, node)]
    own = ports[0].interface if ports and node.kind != "switch" else BRIDGE
    for port in ports:
        bridged = f" master {BRIDGE}" if node.kind == "switch" else ""
        commands.append(f"link set dev {port.interface}{bridged} addrgenmode none up")
    if node.address:
        no_detection = " nodad" if ":" in node.address else ""
        commands.append(f"addr add {node.address}/{layout.prefix_length} dev {own}{no_detection}")
        commands += neighbours.commands(layout, node, own)
    return commands + _ifb_commands(layout, node)


def _routed_commands(layout: Layout, node: Node) -> list[str]:
    """Each port has an address of its own and knows its peer's."""
    commands = []
    for port in layout.ports(node.name):
        device = f"dev {port.interface}"
        ends = layout.ends.get(port, ())  # none at an optical switch, or on a fibre that no circuit uses
        address = f" address {ends[0].mac}" if ends else ""
        commands.append(f"link set {device}{address} addrgenmode none up")
        for end in ends:
            commands += [
                f"addr add {end.address} {device}",
                f"neigh replace {end.peer} lladdr {end.peer_mac} {device} nud permanent",
            ]
    if node.address:
        commands += [
            f"link set dev {HUB_PORT} addrgenmode none up",
            f"addr add {node.address}/{layout.prefix_length} dev {HUB_PORT}",
        ]
        commands += neighbours.commands(layout, node, HUB_PORT)
    return commands + _ifb_commands(layout, node)


def _ifb_commands(layout: Layout, node: Node) -> list[str]:
    return [
        command
        for wire in _shaped_here(layout, node)
        if wire.inward_bps is not None
        for command in shaping.ifb_commands(wire.shaped_at.interface, layout.mtu_bytes)
    ]


def _shaping_commands(layout: Layout, node: Node) -> list[str]:
    commands = []
    for wire in _shaped_here(layout, node):
        interface = wire.shaped_at.interface
        if wire.outward_bps is not None:
            commands += shaping.Shaper(interface, wire.outward_bps).commands()
        if wire.inward_bps is not None:
            commands += shaping.redirect_commands(interface, shaping.ifb_name(interface))
            commands += shaping.Shaper(shaping.ifb_name(interface), wire.inward_bps).commands()
    return commands


def _shaped_here(layout: Layout, node: Node) -> list[Wire]:
    return [wire for wire in layout.wires if wire.shaped_at.node == node.name]


def _set_namespace(namespace: str) -> None:
    try:
        handle = os.open(NAMESPACE_DIRECTORY / namespace, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as missing:
        problem = f"namespace {namespace} cannot be opened ({missing.strerror}); make the testbed again"
        raise TestbedError(problem) from None
    try:
        if ctypes.CDLL(None, use_errno=True).setns(handle, CLONE_NEWNET) != 0:
            reason = os.strerror(ctypes.get_errno())
            raise SupportError(f"namespace {namespace} cannot be entered ({reason}); run as root")
    finally:
        os.close(handle)
