"""What a row takes on the wire: its key, its values, and its part of a packet's headers (`spec/wire.md`, “Rows”).

A packet has rows of one table and one length. The last one of a receiver is not full, which is not counted, and neither
are acknowledgements, ends and news: together some hundred packets a round.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from wiresum import wire
from wiresum.plan.rows import ETHERNET_PACKET_BYTES
from wiresum.topology.graph import Floats, Ints

TCP_HEADER_BYTES = 32
"""With time stamps."""
TCP_SEGMENT_BYTES = 1448


class Form(NamedTuple):
    """How rows of one kind travel.

    Attributes:
        key_bytes: what tells a row, and what comes with it beside its values.
        copies: how often its values' bytes: 0 for a key alone.
        header_bytes: of a packet, which its rows share.
        room_bytes: that the rows of a packet have.
        is_wide: whether values travel as float32 whatever their table's type, as sums do.
    """

    key_bytes: int
    copies: int = 1
    header_bytes: int = 0
    room_bytes: int = 1
    is_wide: bool = False

    def bytes_of(self, values: Ints, wide_values: Ints | None = None) -> Floats:
        """Bytes that a row takes, by the bytes of its values, and by those of its values as float32 if they differ."""
        taken = values if wide_values is None or not self.is_wide else wide_values
        row = self.key_bytes + self.copies * np.asarray(taken, dtype=np.float64)
        return np.asarray(row + self.header_bytes / np.maximum(1, self.room_bytes // row))


class Forms(NamedTuple):
    """How rows travel in a job.

    Attributes:
        hot_rows: a worker's gradients of rows of tier A, to who sums them.
        hot_sums: sums of them, to workers.
        partial_sums: sums of some workers' rows of tiers A and B, from a node that sums to the next.
        row_sums: sums of rows of tier B, to their server.
        push: a worker's gradients of rows of tiers B and C.
        pull: what is asked for.
        weights: the answer.
        dense: bytes on the wire for each byte of the dense gradient.
    """

    hot_rows: Form
    hot_sums: Form
    partial_sums: Form
    row_sums: Form
    push: Form
    pull: Form
    weights: Form
    dense: float = 1.0


def packets(packet_bytes: int = ETHERNET_PACKET_BYTES) -> Forms:
    """The product's packets, of at most so many bytes above UDP, over IPv4.

    Counted as Linux does: 14 bytes of Ethernet, no preamble, check or gap.
    """
    below = wire.ETHERNET_LEN + wire.IPV4_LEN + wire.UDP_LEN
    headers = wire.HEADER_LEN + wire.ROW_HEADER_LEN

    def form(key_bytes: int, copies: int = 1, *, is_wide: bool = False) -> Form:
        return Form(key_bytes, copies, below + headers, packet_bytes - headers, is_wide)

    dense = (wire.PAGE_PAYLOAD + below + wire.HEADER_LEN) / wire.PAGE_PAYLOAD
    # Rows of tier B are far apart, so packets of offsets are not full: they are counted as if they had keys.
    # Partial sums have a position, a bitmap of workers, and lanes of 64 bits.
    sums = form(3, is_wide=True), form(10, 2, is_wide=True), form(8, is_wide=True)
    return Forms(form(2), *sums, form(8), form(8, 0), form(0), dense)


def tcp() -> Forms:
    """Push/pull as ps-lite does it: keys of 8 bytes with every row, both ways, over TCP."""
    headers = wire.ETHERNET_LEN + wire.IPV4_LEN + TCP_HEADER_BYTES
    row, key = (Form(8, copies, headers, TCP_SEGMENT_BYTES) for copies in (1, 0))
    return Forms(row, row, row, row, row, key, row, 1 + headers / TCP_SEGMENT_BYTES)


def bare(key_bytes: int = 4, position_bytes: int = 2) -> Forms:
    """Keys and values alone, as long as they would have to be: what bounds on counted traces are made of."""
    row, hot = Form(key_bytes), Form(position_bytes)
    return Forms(hot, hot, hot, row, row, Form(key_bytes, 0), row)
