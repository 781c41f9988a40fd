"""Loses packets of a link at random, the same ones in each run with the same seed.

A program of some twenty instructions at the end of the link whose packets cross the ordinary stack (where the link is
shaped, for the same reason): XDP sends past queueing disciplines, and this end sees what any engine at the other one
sends and receives. Where both ends sum in XDP, each direction has its program where it leaves the namespace between
them. It runs before the shaper, so a lost packet takes no time on the link.

Which packet is lost depends on its number and the seed alone: a packet is lost if the number, mixed as in SplitMix64
(Steele, Lea and Flood, OOPSLA 2014), falls below the fraction. ARP is spared: a lost request would stop a flow for a
second, which is a fault of the neighbour cache and none of the link.
"""

import os
import socket
import struct
from dataclasses import dataclass

from wiresum.testbed import bpf, offloads
from wiresum.testbed.layout import Layout, Port, Wire
from wiresum.testbed.namespaces import inside

PROTOCOL_OFFSET = 16
"""Place of `protocol` in the context of a program."""
ETHERTYPE_ARP = 0x0806
GOLDEN = 0x9E3779B97F4A7C15
MIX_1 = 0xBF58476D1CE4E5B9
MIX_2 = 0x94D049BB133111EB
WORD = 1 << 32
COUNTS = struct.Struct("=QQ")


@dataclass(frozen=True)
class LossCount:
    """One direction of a lossy link.

    Attributes:
        packets: that reached the program, ARP left out.
        lost: those that it dropped.
    """

    packets: int
    lost: int


class LossyDirection:
    """The program of one direction of a link, attached until the interface goes.

    Args:
        port: the end at which it runs.
        inward: whether it drops what arrives there, else what leaves.
        fraction: of the packets, from 0 to 1.
        seed: chooses them.

    Raises:
        SupportError: the kernel refused; it has to be 6.6 or newer.
    """

    def __init__(self, port: Port, inward: bool, fraction: float, seed: int) -> None:
        self._what = f"losing packets at {port.interface} in {port.namespace} (needs Linux 6.6)"
        self._map = bpf.create_array(COUNTS.size, self._what)
        program = bpf.load(bpf.BPF_PROG_TYPE_SCHED_CLS, losing_program(self._map, fraction, seed), self._what)
        try:
            kind = bpf.BPF_TCX_INGRESS if inward else bpf.BPF_TCX_EGRESS
            inside(port.namespace, lambda: bpf.attach(program, socket.if_nametoindex(port.interface), kind, self._what))
        finally:
            os.close(program)

    def count(self) -> LossCount:
        """What it has seen and dropped so far."""
        return LossCount(*COUNTS.unpack(bpf.read_array(self._map, COUNTS.size, self._what)))

    def close(self) -> None:
        """Ends the counting; the program stays."""
        os.close(self._map)


Directions = tuple[LossyDirection | None, LossyDirection | None]
"""The two directions of a link, from source to target and back; None where nothing is lost."""


class LossyLinks:
    """Every lossy link of a layout."""

    def __init__(self) -> None:
        self._directions: dict[str, Directions] = {}

    def apply(self, layout: Layout, seed: int) -> None:
        """Makes the links lossy that the topology says.

        Args:
            layout: whose namespaces exist.
            seed: of the testbed; each direction of each link has its own, made from it.

        Raises:
            SupportError: as `LossyDirection`.
        """
        for index, wire in enumerate(layout.wires):
            if not any(wire.link.loss_from(port.node) for port in (wire.source, wire.target)):
                continue
            for port in (wire.source, wire.target):
                offloads.take_apart(port)
            seeds = [direction_seed(seed, index, inward) for inward in (False, True)]
            self._directions[wire.link.id] = self._relayed(wire, seeds) if wire.relay else self._at_an_end(wire, seeds)

    def _at_an_end(self, wire: Wire, seeds: list[int]) -> Directions:
        """Both directions at the end where the link is shaped."""
        end = wire.shaped_at
        out = self._direction(end, False, wire.link.loss_from(end.node), seeds[0])
        back = self._direction(end, True, wire.link.loss_from(wire.link.other_end(end.node)), seeds[1])
        return (out, back) if end == wire.source else (back, out)

    def _relayed(self, wire: Wire, seeds: list[int]) -> Directions:
        """Each direction where it leaves the third namespace that the link leads through."""
        assert wire.relay, "asked of links that have one"
        near, far = wire.relay
        forward = self._direction(far, False, wire.link.loss_from(wire.source.node), seeds[0])
        return forward, self._direction(near, False, wire.link.loss_from(wire.target.node), seeds[1])

    @staticmethod
    def _direction(port: Port, inward: bool, fraction: float, seed: int) -> LossyDirection | None:
        return LossyDirection(port, inward, fraction, seed) if fraction else None

    def counts(self) -> dict[str, tuple[LossCount | None, LossCount | None]]:
        """By link: from source to target, and back; None where nothing is lost."""
        return {
            link: (forward.count() if forward else None, backward.count() if backward else None)
            for link, (forward, backward) in self._directions.items()
        }

    def close(self) -> None:
        """Ends the counting."""
        for direction in (direction for pair in self._directions.values() for direction in pair if direction):
            direction.close()
        self._directions.clear()


def mixed(number: int) -> int:
    """The number's 64 bits well mixed, as the program does."""
    number = number * GOLDEN % 2**64
    number = (number ^ number >> 30) * MIX_1 % 2**64
    number = (number ^ number >> 27) * MIX_2 % 2**64
    return number ^ number >> 31


def direction_seed(seed: int, link: int, inward: bool) -> int:
    """Each direction of each link, by its place in the layout, loses packets of its own."""
    return mixed(seed + 2 * link + inward)


def is_lost(number: int, fraction: float, seed: int) -> bool:
    """Whether the packet with this number, from 0, is lost."""
    return mixed((number + seed) % 2**64) >> 32 < round(fraction * WORD)


def losing_program(counts: int, fraction: float, seed: int) -> bytes:
    """The program's instructions.

    Args:
        counts: a map of one value: packets, and lost ones.
        fraction: of the packets that are lost.
        seed: which of them.

    Example:
        >>> len(losing_program(3, 0.01, 1)) % bpf.INSTRUCTION_BYTES
        0
    """
    return bpf.assemble([
        bpf.instruction(bpf.LOAD_32, 5, 1, offset=PROTOCOL_OFFSET),
        bpf.Jump("keep", bpf.JUMP_IF_EQUAL, 5, value=socket.htons(ETHERTYPE_ARP)),
        bpf.load_64(6, counts, bpf.MAP_VALUE),  # r6: the counts
        bpf.instruction(bpf.MOVE_VALUE, 2, value=1),
        bpf.instruction(bpf.ADD_ATOMICALLY, 6, 2, value=bpf.FETCH),  # r2: the packet's number
        bpf.load_64(3, seed),
        bpf.instruction(bpf.ADD, 2, 3),
        bpf.load_64(3, GOLDEN),
        bpf.instruction(bpf.MULTIPLY, 2, 3),
        _mix(30, MIX_1),
        _mix(27, MIX_2),
        bpf.instruction(bpf.MOVE, 4, 2),
        bpf.instruction(bpf.SHIFT_RIGHT, 4, value=31),
        bpf.instruction(bpf.XOR, 2, 4),
        bpf.instruction(bpf.SHIFT_RIGHT, 2, value=32),
        bpf.load_64(3, round(fraction * WORD)),
        bpf.Jump("drop", bpf.JUMP_IF_LESS, 2, 3),
        "keep",
        bpf.instruction(bpf.MOVE_VALUE, 0, value=bpf.TCX_NEXT),
        bpf.instruction(bpf.EXIT),
        "drop",
        bpf.instruction(bpf.MOVE_VALUE, 2, value=1),
        bpf.instruction(bpf.ADD_ATOMICALLY, 6, 2, offset=8),
        bpf.instruction(bpf.MOVE_VALUE, 0, value=bpf.TCX_DROP),
        bpf.instruction(bpf.EXIT),
    ])  # fmt: skip


def _mix(shift: int, factor: int) -> bytes:
    """r2 = (r2 ^ r2 >> shift) * factor."""
    return b"".join([
        bpf.instruction(bpf.MOVE, 4, 2),
        bpf.instruction(bpf.SHIFT_RIGHT, 4, value=shift),
        bpf.instruction(bpf.XOR, 2, 4),
        bpf.load_64(3, factor),
        bpf.instruction(bpf.MULTIPLY, 2, 3),
    ])  # fmt: skip
