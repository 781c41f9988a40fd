"""Floats to integer lanes and back, on the device where the values are."""

import struct
from dataclasses import dataclass
from typing import Any

import triton

import torch
from wiresum.gpu import kernels

# `crates/wire` and `crates/codec` have them: the exponent of zeros, and what is proposed for Inf and NaN.
MIN_EXPONENT = -128
NOT_FINITE = 2**31 - 1
_ELEMENTS = {
    torch.float32: (kernels.FLOAT32, torch.int32),
    torch.float16: (kernels.FLOAT16, torch.int16),
    torch.bfloat16: (kernels.BFLOAT16, torch.int16),
}
# Elements of a program's tile: enough to fill 16-byte loads of 128 threads, few enough for their registers.
_TILE = 2048


@dataclass(frozen=True)
class LaneFormat:
    """How values are represented on the wire: `Format` of `crates/codec`, of which this is the arithmetic.

    Args:
        workers: Ranks whose sum must fit a lane.
        lane_bits: 32 or 16.
        big_endian: Whether lanes are in network order.
        factor: Lanes per unit of value with the codec `fixed`; `None` for `block`, one exponent a fragment.
    """

    workers: int
    lane_bits: int = 32
    big_endian: bool = False
    factor: float | None = None

    @property
    def lane_type(self) -> torch.dtype:
        """The integer type of a lane."""
        return {16: torch.int16, 32: torch.int32}[self.lane_bits]

    @property
    def limit(self) -> int:
        """The largest magnitude of a lane, with which the sum of all workers' lanes cannot overflow."""
        return ((1 << (self.lane_bits - 1)) - 1) // self.workers

    @property
    def shift(self) -> int:
        """What a fragment's exponent differs from that of its unit by."""
        headroom = (self.workers - 1).bit_length()
        return 1 + headroom - (self.lane_bits - 1)


def exponents(values: torch.Tensor, fragment: int, form: LaneFormat) -> torch.Tensor:
    """What this worker proposes as the exponent of each fragment.

    Args:
        values: Contiguous floats.
        fragment: Elements of a fragment; the last one may have fewer.
        form: The format of the job.

    Returns:
        int32, one for each fragment; `NOT_FINITE` where a value is Inf or NaN, or does not fit a fixed factor.
    """
    bits, options = _bits(values, form)
    count = triton.cdiv(values.numel(), fragment)
    found = torch.empty(count, dtype=torch.int32, device=values.device)
    limits = {"MIN_EXPONENT": MIN_EXPONENT, "NOT_FINITE": NOT_FINITE}
    _launch(kernels.exponents_kernel, count, fragment)(
        bits, found, values.numel(), fragment, count, _float64(form.factor or 1.0), form.limit, **options, **limits
    )
    return found


def encode(
    values: torch.Tensor, agreed: torch.Tensor, fragment: int, form: LaneFormat
) -> tuple[torch.Tensor, torch.Tensor]:
    """Lanes of all fragments, and the sum of each fragment's lanes.

    Args:
        values: Contiguous floats.
        agreed: int8 or int32, the exponent of each fragment: the largest of all ranks' proposals.
        fragment: Elements of a fragment.
        form: The format of the job.

    Returns:
        Lanes, of shape (fragments, fragment), zeros beyond the values; and sums, modulo 2^(bits of a lane), as int32.
    """
    bits, options = _bits(values, form)
    count = triton.cdiv(values.numel(), fragment)
    lanes = torch.empty((count, fragment), dtype=form.lane_type, device=values.device)
    sums = torch.empty(count, dtype=torch.int32, device=values.device)
    scale = (form.shift, _float64(form.factor or 1.0), form.limit)
    _launch(kernels.encode_kernel, count, fragment)(
        bits, agreed, lanes, sums, values.numel(), fragment, count, *scale, **options, **_layout(form)
    )
    return lanes, sums


def decode(
    lanes: torch.Tensor,
    agreed: torch.Tensor,
    values: torch.Tensor,
    form: LaneFormat,
    divisor: float = 1.0,
) -> None:
    """Writes what summed lanes stand for to `values`.

    Args:
        lanes: Of shape (fragments, elements of a fragment).
        agreed: The exponent of each fragment.
        values: Contiguous floats, which are overwritten.
        form: The format of the job.
        divisor: Sums are divided by it: the number of workers for an average.
    """
    bits, options = _bits(values, form)
    count, fragment = lanes.shape
    unit = 1.0 / divisor if form.factor is None else (1.0 / form.factor) / divisor
    _launch(kernels.decode_kernel, count, fragment)(
        lanes, agreed, bits, values.numel(), fragment, count, form.shift, _float64(unit), **options, **_layout(form)
    )


def _bits(values: torch.Tensor, form: LaneFormat) -> tuple[torch.Tensor, dict[str, Any]]:
    element, bits = _ELEMENTS[values.dtype]
    return values.reshape(-1).view(bits), {"ELEMENT": element, "BLOCK": form.factor is None}


def _float64(number: float) -> int:
    """The bits of a float64, as Triton would take the number as a float32."""
    return int(struct.unpack("<q", struct.pack("<d", number))[0])


def _layout(form: LaneFormat) -> dict[str, Any]:
    return {"LANE_BITS": form.lane_bits, "SWAPPED": form.big_endian}


def _launch(kernel: Any, fragments: int, fragment: int) -> Any:
    width = triton.next_power_of_2(fragment)
    rows = max(1, _TILE // width)

    def launch(*arguments: Any, **options: Any) -> None:
        kernel[(triton.cdiv(fragments, rows),)](*arguments, **options, ROWS=rows, WIDTH=width)

    return launch
