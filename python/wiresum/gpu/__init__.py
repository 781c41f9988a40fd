"""The codec on a GPU: floats to integer lanes and back, in Triton, with the bits of `crates/codec`."""

from wiresum.gpu.codec import LaneFormat, decode, encode, exponents

__all__ = ["LaneFormat", "decode", "encode", "exponents"]
