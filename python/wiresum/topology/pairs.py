"""The hash by which a network takes one of several equally short ways: for one pair of nodes, at one node."""

from __future__ import annotations

U32 = (1 << 32) - 1
U64 = (1 << 64) - 1
OF_SOURCE, OF_TARGET = 0x9E3779B1, 0x85EBCA77
"""Knuth's golden ratio and xxHash's second prime: pairs spread over the 32 bits."""
OF_PLACE, OF_MIX = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9
"""SplitMix64's."""
FOLD, KEPT = 29, 33


def choice(source: int, target: int) -> int:
    """What packets between two nodes choose by, all along their way; nodes by index."""
    return (source * OF_SOURCE & U32) ^ (target * OF_TARGET & U32)


def mixed(chosen: int, at: int) -> int:
    """A hash of a choice and the node where it is made: those at different nodes have nothing to do with each other."""
    x = (chosen << 32 | at) * OF_PLACE & U64
    return ((x ^ x >> FOLD) * OF_MIX & U64) >> KEPT
