"""§V-B: the bounds of the rounding."""

from wiresum.planners.ingo.guarantees import excess_bandwidth, excess_capacity, excess_exact
from wiresum.reproduce.ingo.printed import FLOWS, HIGHEST_GBPS, SERVER_GBPS, SWITCHES
from wiresum.reproduce.row import Row

ROWS = (
    Row(
        "I8", "excess of a switch's capacity, 50 switches, C = 10 f", "A", "Theorem 4", "2.28",
        recomputed=lambda: f"{excess_capacity(SWITCHES, FLOWS):.4f} by Eq. (54); Eq. (53), before the root is split, "
        f"gives {excess_exact(SWITCHES, FLOWS):.2f}",
    ),
    Row(
        "I9", "excess of a link's, of 2 ln |S| flows", "X", "Theorem 5", "2.26",
        recomputed=lambda: f"(1 + √17)/4 + 1 = {excess_bandwidth():.2f}",
    ),
    Row(
        "I10", "highest rate", "A", "§V-B", f"{HIGHEST_GBPS} Gbit/s",
        recomputed=lambda: f"N(d) over {SERVER_GBPS / HIGHEST_GBPS:.0f} flows",
    ),
)  # fmt: skip
