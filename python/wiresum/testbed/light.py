"""The light of an emulated optical switch: a program on each port that sends frames on, or loses them in darkness.

The switch is a namespace with a port for each fibre. A frame that comes in by a port goes out by the port that the
circuit leads to, if the circuit has light by then; the queue of that port still limits the circuit's rate, which it
would not if XDP sent the frame. An order is one write of all entries that it changes, and darkness ends by itself: the
entry says from when on there is light.

Each entry has its generation at both ends. A program that reads it while it is written sees two, and takes the frame
for one in darkness.
"""

from __future__ import annotations

import os
import socket
import struct
import threading
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from wiresum.circuits.emulator.crossbar import Crossbar
from wiresum.testbed import bpf
from wiresum.testbed.layout import Port
from wiresum.testbed.loss import BPF_PROG_TYPE_SCHED_CLS, BPF_TCX_INGRESS, TCX_DROP
from wiresum.testbed.namespaces import inside, run_tool

PSEUDO_MAP = 1
LOOKUP, NOW, REDIRECT = 1, 5, 23
"""Helpers of the kernel: bpf_map_lookup_elem, bpf_ktime_get_ns (CLOCK_MONOTONIC), bpf_redirect."""
ADDRESS, LOAD_32, LOAD_64, STORE_VALUE_32, ADD_ATOMICALLY = 0x18, 0x61, 0x79, 0x62, 0xDB
MOVE, MOVE_VALUE, ADD_VALUE, CALL, EXIT = 0xBF, 0xB7, 0x07, 0x85, 0x95
JUMP, JUMP_IF_ZERO, JUMP_UNLESS_EQUAL, JUMP_IF_LESS = 0x05, 0x15, 0x5D, 0xAD
FRAME = 10
"""Register with the end of the stack."""
ENTRY = struct.Struct("=IIQQ")
"""Interface that light leads to (0: none), generation, nanoseconds from when on there is light, generation again."""
COUNTS = struct.Struct("=QQ")
NEVER_NS = (1 << 64) - 1
NS = 10**9

Line = bytes | str | tuple[str, int, int, int]
"""An instruction; a label; or a jump to a label, with opcode, register and register or value."""


@dataclass(frozen=True)
class PortCount:
    """Frames that came in by a port.

    Attributes:
        passed: that met light.
        dark: that were lost in darkness.
    """

    passed: int
    dark: int


class Light:
    """Programs on the ports of a switch, which follow a crossbar's orders.

    They stay, and light with them, when this object is closed: as a device whose controller is gone.

    Args:
        ports: of the switch's namespace, by the name that the crossbar has for them.
        crossbar: whose orders count; its clock is `time.monotonic`.
        drops_carrier: a port without light has no carrier either, so the far end sees its link go down.

    Raises:
        SupportError: the kernel refused; it has to be 6.6 or newer.
    """

    def __init__(self, ports: Mapping[str, Port], crossbar: Crossbar, *, drops_carrier: bool = False) -> None:
        self._ports, self._crossbar, self._drops_carrier = dict(ports), crossbar, drops_carrier
        self._index = {name: index for index, name in enumerate(ports)}
        self._what = "the light of an emulated optical switch (needs Linux 6.6)"
        self._entries = bpf.create_array(ENTRY.size, self._what, len(ports))
        self._counts = bpf.create_array(COUNTS.size, self._what, len(ports))
        self._interfaces = {name: self._attach(name, port) for name, port in ports.items()}
        self._timers: list[threading.Timer] = []
        crossbar.on_change = self._follow
        self._follow(crossbar, list(ports))

    def count(self, port: str) -> PortCount:
        """What came in by a port so far."""
        return PortCount(*COUNTS.unpack(bpf.read_array(self._counts, COUNTS.size, self._what, self._index[port])))

    def close(self) -> None:
        """Ends the counting and the following of orders."""
        self._crossbar.on_change = lambda _, __: None
        for timer in self._timers:
            timer.cancel()
        for descriptor in (self._entries, self._counts):
            os.close(descriptor)

    def _attach(self, name: str, port: Port) -> int:
        program = bpf.load(BPF_PROG_TYPE_SCHED_CLS, self._program(self._index[name]), self._what)

        def attach() -> int:
            index = socket.if_nametoindex(port.interface)
            bpf.attach(program, index, BPF_TCX_INGRESS, self._what)
            return index

        try:
            return inside(port.namespace, attach)
        finally:
            os.close(program)

    def _program(self, index: int) -> bytes:
        return switching_program(self._entries, self._counts, index)

    def _follow(self, crossbar: Crossbar, changed: Collection[str]) -> None:
        """Writes the entries of these ports at once."""
        bpf.write_array(self._entries, {self._index[port]: self._entry(port) for port in changed}, self._what)
        if self._drops_carrier:
            self._set_carriers(changed)

    def _entry(self, port: str) -> bytes:
        beam, generation = self._crossbar.beams.get(port), self._crossbar.generation
        if beam is None:
            return ENTRY.pack(0, generation, NEVER_NS, generation)
        lit_ns = NEVER_NS if beam.lit_s == float("inf") else int(beam.lit_s * NS)
        return ENTRY.pack(self._interfaces[beam.target], generation, lit_ns, generation)

    def _set_carriers(self, changed: Collection[str]) -> None:
        """Takes the carrier of these ports away, and gives it back when they have light."""
        ends = {*changed, *(beam.target for port in changed if (beam := self._crossbar.beams.get(port)))}
        self._link(sorted(ends), "down")
        dark_s = self._crossbar.dark_s + self._crossbar.settle_s
        generation = self._crossbar.generation
        timer = threading.Timer(dark_s, self._give_carrier, (sorted(ends), generation))
        timer.daemon = True
        self._timers.append(timer)
        timer.start()

    def _give_carrier(self, ports: Sequence[str], generation: int) -> None:
        """To those that have light, unless an order came meanwhile, which has a timer of its own."""
        beams = self._crossbar.beams
        lit = {end for port, beam in list(beams.items()) if beam.lit_s < float("inf") for end in (port, beam.target)}
        if self._crossbar.generation == generation:
            self._link([port for port in ports if port in lit], "up")

    def _link(self, ports: Sequence[str], state: str) -> None:
        for namespace in {self._ports[port].namespace for port in ports}:
            lines = [f"link set dev {self._ports[port].interface} {state}" for port in ports]
            run_tool(["ip", "-n", namespace, "-batch", "-"], "\n".join(lines) + "\n")


def switching_program(entries: int, counts: int, index: int) -> bytes:
    """The program of a port.

    Args:
        entries: descriptor of the map of entries.
        counts: descriptor of the map of counts.
        index: of the port in both.

    Example:
        >>> len(switching_program(3, 4, 0)) % bpf.INSTRUCTION_BYTES
        0
    """
    return assemble([
        bpf.instruction(STORE_VALUE_32, FRAME, offset=-4, value=index),
        *_lookup(entries),
        ("lost", JUMP_IF_ZERO, 0, 0),
        bpf.instruction(MOVE, 7, 0),
        bpf.instruction(CALL, value=NOW),
        # The end of the entry first: it is written last.
        bpf.instruction(LOAD_64, 3, 7, offset=16),
        bpf.instruction(LOAD_64, 2, 7, offset=8),
        bpf.instruction(LOAD_32, 4, 7, offset=4),
        bpf.instruction(LOAD_32, 9, 7, offset=0),
        ("dark", JUMP_UNLESS_EQUAL, 3, 4),
        ("dark", JUMP_IF_LESS, 0, 2),
        ("count", JUMP, 0, 0),
        "dark",
        bpf.instruction(MOVE_VALUE, 9, value=0),
        "count",
        *_lookup(counts),
        ("lost", JUMP_IF_ZERO, 0, 0),
        bpf.instruction(MOVE_VALUE, 1, value=1),
        ("unlit", JUMP_IF_ZERO, 9, 0),
        bpf.instruction(ADD_ATOMICALLY, 0, 1, offset=0),
        bpf.instruction(MOVE, 1, 9),
        bpf.instruction(MOVE_VALUE, 2, value=0),
        bpf.instruction(CALL, value=REDIRECT),
        bpf.instruction(EXIT),
        "unlit",
        bpf.instruction(ADD_ATOMICALLY, 0, 1, offset=8),
        "lost",
        bpf.instruction(MOVE_VALUE, 0, value=TCX_DROP),
        bpf.instruction(EXIT),
    ])  # fmt: skip


def assemble(lines: Sequence[Line]) -> bytes:
    """Instructions with the distances of jumps filled in; jumps lead forwards.

    Example:
        >>> jump = assemble([("end", JUMP, 0, 0), bpf.instruction(EXIT), "end"])
        >>> struct.unpack_from("=h", jump, 2)
        (1,)
    """
    places: dict[str, int] = {}
    position = 0
    for line in lines:
        if isinstance(line, str):
            places[line] = position
        else:
            position += len(line) // bpf.INSTRUCTION_BYTES if isinstance(line, bytes) else 1
    made = b""
    for line in lines:
        if isinstance(line, bytes):
            made += line
        elif not isinstance(line, str):
            label, code, target, source = line
            distance = places[label] - len(made) // bpf.INSTRUCTION_BYTES - 1
            made += bpf.instruction(code, target, source, distance)
    return made


def _lookup(entries: int) -> list[Line]:
    """r0 = address of the entry whose index is on the stack; 0: none."""
    return [
        bpf.instruction(ADDRESS, 1, PSEUDO_MAP, value=entries) + bpf.instruction(0),
        bpf.instruction(MOVE, 2, FRAME),
        bpf.instruction(ADD_VALUE, 2, value=-4),
        bpf.instruction(CALL, value=LOOKUP),
    ]
