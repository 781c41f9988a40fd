"""What the paper states, as far as something is computed from it."""

TESTBED_GBPS = {"InGo": 3.74, "GRID": 1.39, "ATP": 1.61}
"""10 workers (§VI-B, Fig. 2)."""
TESTBED_MILLION_SUMS = {"InGo": 152.61, "ATP": 50.32, "GRID": 72.67}
"""Elements per second (§VI-B, Fig. 3)."""
SIMULATED_GBPS = {"InGo": 1.00, "GRID": 0.38, "ATP": 0.29}
"""50 workers (§VI-C, Fig. 6)."""
SIMULATED_MILLION_SUMS = {"InGo": 1443.0, "ATP": 235.0, "GRID": 620.0}
"""50 workers (§VI-C, Fig. 7)."""
TESTBED_S = {"InGo": 617.7, "InGo-64": 826.2, "GRID": 908.7, "ATP": 1120.4}
SIMULATED_S = {"InGo": 169.8, "InGo-64": 495.7, "GRID": 599.8, "ATP": 672.3}
"""Inception-V3 on CIFAR-100 to an accuracy of 54 % (§VI-B and §VI-C)."""
FIXED_BATCH_SIZE = 64
"""Images of a worker under InGo-64, GRID and ATP."""
SWITCHES, FLOWS = 50, 10
"""|S| and C(s)/f of Theorem 4."""
SERVER_GBPS, HIGHEST_GBPS = 100.0, 12.5
"""N(d), and the highest rate "through our experiments" (§V-B)."""
