"""What happens when jobs want the same slots of a switch: no plan can say it, so it is predicted in closed form.

ATP hashes each fragment to a slot, and a fragment that finds another job's there goes to the parameter server as it is.
ESA lets a fragment of higher priority take the slot. Both are for jobs that keep their windows full.
"""

from __future__ import annotations

import math
from collections.abc import Sequence


def atp_forwarded_share(other_windows: Sequence[int], slots: int) -> float:
    """Fraction of a job's fragments that are not summed because their slots are held by other jobs.

    Each other job holds as many different slots as its window has fragments, placed at random and independently of the
    others: 1 − Π (1 − wⱼ / slots).

    Args:
        other_windows: fragments in flight of each other job.
        slots: of the switch.

    Raises:
        ValueError: a window exceeds the slots.

    Example:
        >>> round(atp_forwarded_share([100, 100], 1000), 3)
        0.19
    """
    if any(not 0 <= window <= slots for window in other_windows):
        raise ValueError(f"windows are 0 to {slots} fragments, the switch's slots, not {list(other_windows)}")
    return 1 - math.prod(1 - window / slots for window in other_windows)


def esa_forwarded_share(others: Sequence[tuple[int, int]], priority: int, slots: int) -> float:
    """The same under ESA: only slots of jobs of at least the same priority are out of reach.

    Args:
        others: window and priority of each other job.
        priority: of this one; a higher number is more urgent.
        slots: of the switch.

    Raises:
        ValueError: a window exceeds the slots.

    Example:
        >>> round(esa_forwarded_share([(100, 1), (100, 3)], priority=2, slots=1000), 3)
        0.1
    """
    return atp_forwarded_share([window for window, theirs in others if theirs >= priority], slots)
