"""What InGo proves of its rounding (Theorems 4 and 5): by how much a capacity may be exceeded.

Each of the bounds holds for one capacity with probability 1 − 1/|S|, and says nothing of the rate of the best of many
roundings; that has `Solution.gap`.
"""

import math


def excess_exact(switches: int, flows: float) -> float:
    """The factor of Eq. (53), by the Chernoff bound as it is.

    Args:
        switches: |S|.
        flows: C(s)/f̃, the flows of the relaxation's rate that the capacity holds.

    Example:
        >>> round(excess_exact(50, 10), 2)
        2.1
    """
    log = math.log(switches)
    return (log + math.sqrt(log**2 + 8 * flows * log)) / (2 * flows) + 1


def excess_capacity(switches: int, flows: float) -> float:
    """The looser factor of Theorem 4 (Eq. 54), whose square root is split; arguments as of `excess_exact`.

    Example:
        >>> round(excess_capacity(50, 10), 4)
        2.2757
    """
    log = math.log(switches)
    return (2 * log + math.sqrt(8 * flows * log)) / (2 * flows) + 1


def excess_bandwidth() -> float:
    """The factor of Theorem 5, for links that hold 2 ln |S| flows; the paper prints 2.26.

    Example:
        >>> round(excess_bandwidth(), 2)
        2.28
    """
    return (1 + math.sqrt(17)) / 4 + 1
