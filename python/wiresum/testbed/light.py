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
from wiresum.testbed.namespaces import inside, run_tool

ENTRY = struct.Struct("=IIQQ")
"""Interface that light leads to (0: none), generation, nanoseconds from when on there is light, generation again."""
COUNTS = struct.Struct("=QQ")
NEVER_NS = (1 << 64) - 1
NS = 10**9


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
        self._follow(list(ports))

    def count(self, port: str) -> PortCount:
        """What came in by a port so far."""
        return PortCount(*COUNTS.unpack(bpf.read_array(self._counts, COUNTS.size, self._what, self._index[port])))

    def close(self) -> None:
        """Ends the counting and the following of orders."""
        self._crossbar.on_change = lambda _: None
        for timer in self._timers:
            timer.cancel()
        for descriptor in (self._entries, self._counts):
            os.close(descriptor)

    def _attach(self, name: str, port: Port) -> int:
        instructions = switching_program(self._entries, self._counts, self._index[name])
        program = bpf.load(bpf.BPF_PROG_TYPE_SCHED_CLS, instructions, self._what)

        def attach() -> int:
            index = socket.if_nametoindex(port.interface)
            bpf.attach(program, index, bpf.BPF_TCX_INGRESS, self._what)
            return index

        try:
            return inside(port.namespace, attach)
        finally:
            os.close(program)

    def _follow(self, changed: Collection[str]) -> None:
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
    return bpf.assemble([
        bpf.instruction(bpf.STORE_VALUE_32, bpf.FRAME, offset=-4, value=index),
        *_lookup(entries),
        bpf.Jump("lost", bpf.JUMP_IF_EQUAL, 0),
        bpf.instruction(bpf.MOVE, 7, 0),
        bpf.instruction(bpf.CALL, value=bpf.NOW),
        # The end of the entry first: it is written last.
        bpf.instruction(bpf.LOAD_64, 3, 7, offset=16),
        bpf.instruction(bpf.LOAD_64, 2, 7, offset=8),
        bpf.instruction(bpf.LOAD_32, 4, 7, offset=4),
        bpf.instruction(bpf.LOAD_32, 9, 7, offset=0),
        bpf.Jump("dark", bpf.JUMP_UNLESS_SAME, 3, 4),
        bpf.Jump("dark", bpf.JUMP_IF_LESS, 0, 2),
        bpf.Jump("count"),
        "dark",
        bpf.instruction(bpf.MOVE_VALUE, 9, value=0),
        "count",
        *_lookup(counts),
        bpf.Jump("lost", bpf.JUMP_IF_EQUAL, 0),
        bpf.instruction(bpf.MOVE_VALUE, 1, value=1),
        bpf.Jump("unlit", bpf.JUMP_IF_EQUAL, 9),
        bpf.instruction(bpf.ADD_ATOMICALLY, 0, 1, offset=0),
        bpf.instruction(bpf.MOVE, 1, 9),
        bpf.instruction(bpf.MOVE_VALUE, 2, value=0),
        bpf.instruction(bpf.CALL, value=bpf.REDIRECT),
        bpf.instruction(bpf.EXIT),
        "unlit",
        bpf.instruction(bpf.ADD_ATOMICALLY, 0, 1, offset=8),
        "lost",
        bpf.instruction(bpf.MOVE_VALUE, 0, value=bpf.TCX_DROP),
        bpf.instruction(bpf.EXIT),
    ])  # fmt: skip


def _lookup(entries: int) -> list[bpf.Line]:
    """r0 = address of the entry whose index is on the stack; 0: none."""
    return [
        bpf.load_64(1, entries, bpf.MAP),
        bpf.instruction(bpf.MOVE, 2, bpf.FRAME),
        bpf.instruction(bpf.ADD_VALUE, 2, value=-4),
        bpf.instruction(bpf.CALL, value=bpf.LOOKUP),
    ]
