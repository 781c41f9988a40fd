"""The three loops of the codec as Triton kernels.

A program takes a tile of `ROWS` fragments, each padded to `WIDTH` lanes, a power of two. Numbers are computed in
float64, as `crates/codec/src/kernels.rs` does: a GPU has the time, as all three are bound by its memory. 16-bit
elements come and go as bits, because Triton's own conversions from float64 round twice.
"""

import triton
import triton.language as tl

FLOAT32 = tl.constexpr(0)
FLOAT16 = tl.constexpr(1)
BFLOAT16 = tl.constexpr(2)

# 1.5 · 2^52: adding it rounds to an integer, ties to even, and leaves that integer in the low bits.
_ROUNDER = tl.constexpr(6755399441055744.0)
_F64_BIAS = tl.constexpr(1023)
_F64_FRACTION_BITS = tl.constexpr(52)
# Low bits of a float64 that a float32 has no room for.
_EXCESS = tl.constexpr((1 << 29) - 1)


@triton.jit
def _tile(elements, fragment, ROWS: tl.constexpr, WIDTH: tl.constexpr):
    """Rows of a program's tile, offsets of its lanes, and which of them are elements."""
    rows = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    columns = tl.arange(0, WIDTH)
    offsets = rows[:, None] * fragment + columns[None, :]
    return rows, offsets, columns[None, :] < fragment, offsets < elements


@triton.jit
def _magnitude(bits, ELEMENT: tl.constexpr):
    """The bits without the sign, which order like absolute values, with Inf and then NaN on top."""
    if ELEMENT == FLOAT32:
        return bits & 0x7FFFFFFF
    return bits.to(tl.int32) & 0x7FFF


@triton.jit
def _widen(bits, ELEMENT: tl.constexpr):
    """The element with these bits, as float64."""
    if ELEMENT == FLOAT32:
        return bits.to(tl.float32, bitcast=True).to(tl.float64)
    if ELEMENT == FLOAT16:
        return bits.to(tl.int16).to(tl.float16, bitcast=True).to(tl.float32).to(tl.float64)
    return (bits.to(tl.int32) << 16).to(tl.float32, bitcast=True).to(tl.float64)


@triton.jit
def _narrow(numbers, ELEMENT: tl.constexpr):
    """Bits of the nearest element, ties to even; through the float32 whose last bit is odd where there is none."""
    if ELEMENT == FLOAT32:
        nearest = numbers.to(tl.float32).to(tl.int32, bitcast=True)
    else:
        wide = numbers.to(tl.int64, bitcast=True)
        inexact = ((wide & _EXCESS) + _EXCESS) & (_EXCESS + 1)
        odd = ((wide & ~_EXCESS) | inexact).to(tl.float64, bitcast=True).to(tl.float32)
        if ELEMENT == FLOAT16:
            nearest = odd.to(tl.float16).to(tl.int16, bitcast=True)
        else:
            bits = odd.to(tl.uint32, bitcast=True)
            nearest = ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).to(tl.int16)
    return nearest


@triton.jit
def _power_of_two(exponents):
    """2^exponent as float64, for exponents of normal numbers."""
    return ((exponents.to(tl.int64) + _F64_BIAS) << _F64_FRACTION_BITS).to(tl.float64, bitcast=True)


@triton.jit
def _float64(bits):
    """The float64 with these bits: Triton takes floats of Python as float32."""
    return bits.to(tl.int64).to(tl.float64, bitcast=True)


@triton.jit
def _swap(lanes, WIDTH_BITS: tl.constexpr):
    """The lanes with their bytes in the other order."""
    if WIDTH_BITS == 16:
        return ((lanes & 0xFF) << 8) | ((lanes >> 8) & 0xFF)
    inner = ((lanes & 0xFF00) << 8) | ((lanes >> 8) & 0xFF00)
    return (lanes << 24) | ((lanes >> 24) & 0xFF) | inner


@triton.jit
def exponents_kernel(
    values,
    exponents,
    elements,
    fragment,
    fragments,
    factor,
    limit,
    ELEMENT: tl.constexpr,
    BLOCK: tl.constexpr,
    MIN_EXPONENT: tl.constexpr,
    NOT_FINITE: tl.constexpr,
    ROWS: tl.constexpr,
    WIDTH: tl.constexpr,
):
    """Each fragment's proposal: see `Format::exponent` of `crates/codec`."""
    rows, offsets, in_fragment, in_values = _tile(elements, fragment, ROWS, WIDTH)
    bits = tl.load(values + offsets, mask=in_fragment & in_values, other=0)
    largest = tl.max(_magnitude(bits, ELEMENT), axis=1)
    infinite = 0x7F800000 if ELEMENT == FLOAT32 else (0x7C00 if ELEMENT == FLOAT16 else 0x7F80)
    number = _widen(largest, ELEMENT)
    if BLOCK:
        exponent = (number.to(tl.int64, bitcast=True) >> _F64_FRACTION_BITS).to(tl.int32) - _F64_BIAS
        proposal = tl.maximum(exponent, MIN_EXPONENT)
    else:
        lane = (number * _float64(factor) + _ROUNDER) - _ROUNDER
        proposal = tl.where(lane > limit.to(tl.float64), NOT_FINITE, 0)
    proposal = tl.where(largest >= infinite, NOT_FINITE, proposal)
    tl.store(exponents + rows, proposal, mask=rows < fragments)


@triton.jit
def encode_kernel(
    values,
    exponents,
    lanes,
    sums,
    elements,
    fragment,
    fragments,
    shift,
    factor,
    limit,
    ELEMENT: tl.constexpr,
    BLOCK: tl.constexpr,
    LANE_BITS: tl.constexpr,
    SWAPPED: tl.constexpr,
    ROWS: tl.constexpr,
    WIDTH: tl.constexpr,
):
    """Lanes and their sum, for each fragment with its agreed exponent."""
    rows, offsets, in_fragment, in_values = _tile(elements, fragment, ROWS, WIDTH)
    exists = rows < fragments
    bits = tl.load(values + offsets, mask=in_fragment & in_values, other=0)
    if BLOCK:
        agreed = tl.load(exponents + rows, mask=exists, other=0).to(tl.int32)
        scale = _power_of_two(-(agreed + shift))[:, None]
    else:
        scale = _float64(factor)
    number = _widen(bits, ELEMENT) * scale
    # The same comparisons as the Rust loop's, for NaN too.
    most = limit.to(tl.float64)
    number = tl.where(number < most, number, most)
    number = tl.where(number > -most, number, -most)
    integer = (number + _ROUNDER).to(tl.int64, bitcast=True).to(tl.int32)
    integer = tl.where(in_fragment & in_values, integer, 0)
    sum_of_lanes = tl.sum(integer, axis=1)
    if LANE_BITS == 16:
        sum_of_lanes = sum_of_lanes & 0xFFFF
    tl.store(sums + rows, sum_of_lanes, mask=exists)
    if SWAPPED:
        integer = _swap(integer, LANE_BITS)
    stored = integer.to(tl.int16) if LANE_BITS == 16 else integer
    tl.store(lanes + offsets, stored, mask=in_fragment & exists[:, None])


@triton.jit
def decode_kernel(
    lanes,
    exponents,
    values,
    elements,
    fragment,
    fragments,
    shift,
    factor,
    ELEMENT: tl.constexpr,
    BLOCK: tl.constexpr,
    LANE_BITS: tl.constexpr,
    SWAPPED: tl.constexpr,
    ROWS: tl.constexpr,
    WIDTH: tl.constexpr,
):
    """Summed lanes times the unit of their fragment."""
    rows, offsets, in_fragment, in_values = _tile(elements, fragment, ROWS, WIDTH)
    integer = tl.load(lanes + offsets, mask=in_fragment & in_values, other=0).to(tl.int32)
    if SWAPPED:
        integer = _swap(integer, LANE_BITS)
        if LANE_BITS == 16:
            integer = (integer << 16) >> 16
    if BLOCK:
        agreed = tl.load(exponents + rows, mask=rows < fragments, other=0).to(tl.int32)
        unit = (_power_of_two(agreed + shift) * _float64(factor))[:, None]
    else:
        unit = _float64(factor)
    numbers = integer.to(tl.float64) * unit
    tl.store(values + offsets, _narrow(numbers, ELEMENT), mask=in_fragment & in_values)
