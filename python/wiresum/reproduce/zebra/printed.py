"""Figures as the paper prints them: what everything recomputed starts from."""

from __future__ import annotations

POPULAR = {
    "oa": {30_000: 0.50},
    "se": {30_000: 0.70},
    "deeplight": {30_000: 0.40},
    "ncf": {100: 0.40, 5_000: 0.50},
}
"""Fig. 4 and §III-A: share of all updates by the most updated parameters; “over half” is taken as half."""
HOT_ROWS = {"oa": 30_000, "se": 30_000, "ncf": 10_000, "deeplight": 40_000}
"""§V-B; for LSTM, of which no popularity is printed, it is 40,000."""
NAMES = {"oa": "OA", "se": "SE", "deeplight": "DeepLight", "ncf": "NCF"}
WORKERS, DOUBLED_WORKERS, SAMPLED_WORKERS = (4, 8, 16, 32), 16, 16
"""Fig. 6; Figs. 7 and 8; §III-A."""
GAIN = (1.5, 4.0)
"""Fig. 6, over PS-lite with 32 workers."""

NCF_SPARSE_MB, NCF_PUSHED_MB, NCF_DENSE_MB, NCF_PARAMETERS = 680.0, 104.0, 0.4, 70_000
"""§II-B, and Fig. 4."""
DOUBLED_GAIN = {"oa": 0.07, "se": 0.017}
"""Fig. 7, from 30,000 to 60,000 hot parameters."""
PRECISION_AT = {0.04: 0.80, 0.08: 0.90}
"""Fig. 9, by sampling rate: more than."""
ONLINE_ROUNDS, ALL_ROUNDS = 10, 200
ONLINE_PRECISION = {"deeplight": 0.714, "ncf": 0.991, "oa": 0.691, "se": 0.821}
"""Table II; LSTM 72.3 %."""

MEMORY_KB = {"hot parameters": 118.0, "floats": 408.5, "control": 130.0}
MEMORY_TOTAL_KB, MEMORY_SHARE, CHIP_MB = 656.5, 0.0321, 20
"""§V-F."""
END_TO_END = (1.4, 2.6)
"""Fig. 12."""
STATION_MS = 4.45
"""§V-E."""
LOSS_COST = 0.03
"""Fig. 11: less than, with 0.01 to 0.1 % of the packets lost."""
