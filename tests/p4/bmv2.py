"""A BMv2 switch with three ports, in the network namespace that this process is in.

Port 1 leads to all workers, port 2 up, port 3 to worker 0 alone: what goes down leaves by port 1, and by port 3
for worker 0 only.
"""

from __future__ import annotations

import json
import re
import socket
import subprocess
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.p4.frames import ETHERTYPE_IPV4, PROTOCOL_UDP, Received, frame, unpack
from tests.p4.tools import Tools

BELOW, ABOVE, BESIDE = PORTS = (1, 2, 3)
EVERYONE, WORKER_0 = 2**64 - 1, 1
SERVER, WORKER = 0x0A000009, 0x0A000001
MAC = "02:00:00:00:00:09"
THRIFT_PORT = 9090
START_TIMEOUT_S = 30.0
# A packet takes about a millisecond; a busy machine may take its time.
PACKET_TIMEOUT_S = 20.0
COMMAND_TIMEOUT_S = 60
# BMv2 reads one packet each time that a port becomes readable, and looks again after a tenth of a second: of two that
# come at once, the second waits for that.
READING_S = 0.003
ALL_ETHERTYPES = 3
ANY_NODE = 0xFFFF
MARK = b"not one of ours"
# Type of the frames that a packet socket sees because it sent them itself.
PACKET_OUTGOING = 4


def ip(*arguments: str) -> None:
    """Runs `ip`."""
    subprocess.run(["ip", *arguments], check=True, timeout=COMMAND_TIMEOUT_S)


class Switch:
    """A running program. Use as a context."""

    def __init__(self, tools: Tools, program: Path) -> None:
        self._tools = tools
        self._program = program
        self._stack = ExitStack()
        self._links: dict[int, socket.socket] = {}
        self.registers = [register["name"] for register in json.loads(program.read_text())["register_arrays"]]

    def __enter__(self) -> Self:
        # Whatever sends of its own accord would be mistaken for the switch's.
        Path("/proc/sys/net/ipv6/conf/default/disable_ipv6").write_text("1")
        ip("link", "set", "lo", "up")
        for port in PORTS:
            self._links[port] = self._stack.enter_context(link(port))
        self._stack.enter_context(self._started())
        self._wait()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._process.kill()
        self._stack.close()

    def _started(self) -> subprocess.Popen[bytes]:
        interfaces = [part for port in PORTS for part in ("-i", f"{port}@switch{port}")]
        command = [self._tools.switch, *interfaces, "--thrift-port", str(THRIFT_PORT), str(self._program)]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        return self._process

    def _wait(self) -> None:
        deadline = time.monotonic() + START_TIMEOUT_S
        while time.monotonic() < deadline and self._process.poll() is None:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", THRIFT_PORT)) == 0:
                    return
            time.sleep(0.05)
        raise RuntimeError(f"{self._tools.switch} did not start: run it on {self._program} to see why")

    def command(self, *lines: str) -> str:
        """What the switch's command line answers.

        Raises:
            RuntimeError: if it reports an error.
        """
        command = [self._tools.command_line, "--thrift-port", str(THRIFT_PORT)]
        text = "\n".join(lines) + "\n"
        done = subprocess.run(
            command, input=text, capture_output=True, text=True, timeout=COMMAND_TIMEOUT_S, check=False
        )
        if done.returncode or re.search(r"Error|Invalid|Unknown", done.stdout):
            raise RuntimeError(f"{text}\n{done.stdout}\n{done.stderr}")
        return done.stdout

    def fill(self, node: int, places: list[dict], forgotten: Sequence[int] = ()) -> None:
        """Enters the streams of a trace into the tables, and which jobs the switch has forgotten."""
        lines = [
            f"table_add routes route {WORKER} => {BELOW} {MAC}",
            f"table_add routes route {SERVER} => {ABOVE} {MAC}",
        ]
        for number, place in enumerate(places, 1):
            lines += entries(node, number, place)
            lines += [f"table_add forgotten forget {number} =>"] * (place["job"] in forgotten)
        self.command(*lines)

    def read(self, *names: str) -> list[list[int]]:
        """The cells of registers, each named by the end of its name."""
        full = [next(found for found in self.registers if f".{found}".endswith(f".{name}")) for name in names]
        answer = self.command(*(f"register_read {name}" for name in full))
        return [
            [int(cell) for cell in cells.split(",")] for cells in re.findall(r"=((?:\s*\d+,)*\s*\d+)\s*$", answer, re.M)
        ]

    def send(self, port: int, datagram: bytes, destination: int, **options: tuple[int, int]) -> None:
        """A datagram arrives at a port."""
        self._links[port].send(frame(datagram, destination, **options))

    def receive(self, port: int) -> Received:
        """The next datagram that leaves by a port.

        Raises:
            TimeoutError: if none does.
        """
        while True:
            data, address = self._links[port].recvfrom(65535)
            if address[2] != PACKET_OUTGOING and data[12:14] == ETHERTYPE_IPV4.to_bytes(2) and data[23] == PROTOCOL_UDP:
                return unpack(data)

    def settle(self, port: int = ABOVE) -> None:
        """Waits until all that arrived is dealt with, by a datagram of someone else's that leaves next by a port.

        Raises:
            AssertionError: if something else leaves there.
        """
        time.sleep(READING_S)
        self.send(BELOW, MARK, SERVER if port == ABOVE else WORKER, ports=(1, 2))
        left = self.receive(port).datagram
        assert left == MARK, f"port {port}: {left.hex()} left unexpected"


def entries(node: int, number: int, place: dict) -> list[str]:
    """The table entries of a stream of a golden trace."""
    job, sub_model, members = place["job"], place["sub_model"], place["members"]
    parent, cohort = place["parent"], place.get("cohort", 0)
    # The traces' other jobs' sums have the same parent: its number is all that a packet shows of it.
    sums = f"{number} {members} {members.bit_count()} {node} {int(parent is not None)}"
    lanes = place.get("lanes", 0)
    memory = f"{place['base']} {place['slots']} {place['window']} {lanes}"
    nodes = [ANY_NODE, *([] if parent is None else [parent])]
    below = [f"{BELOW} => {EVERYONE}", f"{BESIDE} => {WORKER_0}"]
    return [
        f"table_add places sum {job} {sub_model} {cohort} => {sums} {memory}",
        f"table_add owners owner {number} => {job} {sub_model} {cohort} {parent or 0} {lanes}",
        # Cohorts of one stream have the same way.
        *(f"table_add ways way {job} {sub_model} {to} 0&&&0 => {ABOVE} {MAC} {SERVER} 1" for to in nodes if not cohort),
        f"mc_mgrp_create {number}",
        f"mc_node_create 1 {BELOW} {BESIDE}",
        f"mc_node_associate {number} {number - 1}",
        *(f"table_add copies below {job} {sub_model} {cohort} {copy} {MAC} {WORKER}" for copy in below),
    ]


def link(port: int) -> socket.socket:
    """A pair of interfaces, one for the switch; a socket at the other."""
    ip("link", "add", f"test{port}", "type", "veth", "peer", "name", f"switch{port}")
    for end in (f"test{port}", f"switch{port}"):
        ip("link", "set", end, "mtu", "9000", "up")
    end = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ALL_ETHERTYPES))
    end.bind((f"test{port}", 0))
    end.settimeout(PACKET_TIMEOUT_S)
    return end
