"""Random numbers by their place in an endless sequence, so that it does not matter in which parts they are drawn."""

from __future__ import annotations

from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

WORDS_AT_ONCE = 4
"""64-bit words that Philox makes of each value of its counter."""
GAMMA, MIX_1, MIX_2 = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
"""SplitMix64's."""


class RandomStream(IntEnum):
    """What the numbers of a sequence decide: sequences of one seed have nothing to do with each other."""

    ROWS = 0
    NUMBERS = 1
    CLICKS = 2
    DRIFT = 3
    EVENING = 4
    SAMPLING = 5
    ORDER = 6


def uniforms(seed: int, stream: RandomStream, first: int, count: int) -> Floats:
    """Numbers `first` to `first + count` − 1 of a sequence, from 0 to below 1.

    Example:
        >>> whole = uniforms(1, RandomStream.ROWS, 0, 10)
        >>> bool((uniforms(1, RandomStream.ROWS, 7, 3) == whole[7:]).all())
        True
    """
    begin, skipped = divmod(first, WORDS_AT_ONCE)
    generator = np.random.Generator(np.random.Philox(counter=begin, key=[seed, int(stream)]))
    return generator.random(skipped + count)[skipped:]


def hashed(keys: Ints, seed: int) -> NDArray[np.uint64]:
    """64 bits for each key that look random and are always the same (SplitMix64)."""
    return mixed(keys.astype(np.uint64) * np.uint64(GAMMA) + np.uint64(seed))


def mixed(x: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """What SplitMix64 makes of its state."""
    x = (x ^ x >> np.uint64(30)) * np.uint64(MIX_1)
    x = (x ^ x >> np.uint64(27)) * np.uint64(MIX_2)
    return np.asarray(x ^ x >> np.uint64(31), dtype=np.uint64)
