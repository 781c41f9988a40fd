"""Numbers of a job's lives. Nodes serve the largest that they have met, so later ones take over from earlier ones."""

from __future__ import annotations

import time

NS_PER_US = 1_000
NS_PER_MS = 1_000_000


def next_incarnation() -> int:
    """Microseconds since 1970: the number of a job that begins now."""
    return time.time_ns() // NS_PER_US


def quiet_incarnation() -> int:
    """Milliseconds since 1970: later than each of these before, earlier than that of any job; so it disturbs none."""
    return time.time_ns() // NS_PER_MS
