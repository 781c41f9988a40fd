"""Sums of the ranks' tensors, one row for each rank, as they come out of the network and out of rings."""

from __future__ import annotations

import numpy as np

import torch
from wiresum import _native
from wiresum.plan.choices import Lanes, lane_bytes

CODEC = "block"
NOT_FINITE = 2**31 - 1
"""What a worker proposes for a packet with Inf or NaN."""
MAX_EXPONENT = 127
"""What the field of a packet's header holds; engines send what is larger with this one."""
MAX_SEGMENT_BYTES = 1 << 20
"""Gloo's, of a ring's message."""


def by_lanes(tensors: torch.Tensor, lanes: Lanes, payload_bytes: int) -> torch.Tensor:
    """The sum as engines and servers make it, by the product's own codec: every rank gets these bits.

    Ranks propose an exponent for each packet, the largest one counts, values become integers by it, integers are added
    modulo the width of a lane, and the sum becomes a value of the tensors' type.

    Args:
        tensors: of a type that the network sums.
        lanes: width and byte order on the wire, little-endian.
        payload_bytes: of a full packet.

    Raises:
        ValueError: a value is Inf or NaN, or lanes are too narrow for so many ranks.
    """
    element = str(tensors.dtype).removeprefix("torch.")
    form = (CODEC, lanes, len(tensors))
    fragment = payload_bytes // lane_bytes(lanes)
    values = [raw(tensor) for tensor in tensors]
    proposed = np.max([_native.codec_exponents(each, element, fragment, form) for each in values], axis=0)
    if (proposed == NOT_FINITE).any():
        raise ValueError("a value is Inf or NaN, and the network hands such tensors to Gloo; sum finite ones")
    exponents = np.minimum(proposed, MAX_EXPONENT).tolist()
    encoded = (_native.codec_encode(each, element, exponents, fragment, form)[0] for each in values)
    # Aggregators add modulo the width of a lane, in any order.
    contributions = [np.frombuffer(each, f"<i{lane_bytes(lanes)}") for each in encoded]
    total = np.add.reduce(contributions, dtype=contributions[0].dtype)
    decoded = _native.codec_decode(total.tobytes(), element, exponents, tensors.shape[1], form)
    return torch.frombuffer(bytearray(decoded), dtype=tensors.dtype)


def raw(tensor: torch.Tensor) -> bytes:
    """The bytes of a tensor."""
    return tensor.contiguous().view(torch.uint8).numpy().tobytes()


def ring(tensors: torch.Tensor) -> torch.Tensor:
    """The sum as Gloo's ring makes it, to the bit: in the tensors' own type, rounded at each hop.

    The tensor is cut into a chunk for each rank. The sum of chunk c begins at rank c - 1 and goes down the ranks, each
    of which adds its own values, until rank c has it all (gloo/allreduce.cc).
    """
    ranks, elements = tensors.shape
    length, parts = chunk_elements(elements, ranks, tensors.element_size()), []
    for chunk, part in enumerate(torch.split(tensors, length, dim=1)):
        total = part[(chunk - 1) % ranks]
        for hop in range(2, ranks + 1):
            total = total + part[(chunk - hop) % ranks]
        parts.append(total)
    return torch.cat(parts)


def chunk_elements(elements: int, ranks: int, element_bytes: int) -> int:
    """Elements of a rank's chunk in Gloo's ring: at least two segments of at most 1 MiB; the last may have fewer."""
    most = MAX_SEGMENT_BYTES // element_bytes
    segments_of_rank = -(-max(-(-elements // most), 2 * ranks) // ranks)
    return segments_of_rank * -(-elements // (segments_of_rank * ranks))
