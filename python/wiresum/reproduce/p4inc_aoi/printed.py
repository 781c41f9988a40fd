"""What the paper states, as far as something is computed from it or shown beside it."""

CONNECTIONS = {"a": 4, "b": 3, "c": 2, "d": 0}
RECONFIGURATIONS = {"a": 3, "b": 2, "c": 1, "d": 0}
"""§III, Fig. 2: by placement, without sums (a, b) and with them (c, d)."""

SPEEDUPS = {"resnet50": 1.56, "resnet101": 1.83, "resnet152": 1.65, "vgg11": 3.7, "vgg16": 3.7, "vgg19": 3.8}
"""Throughput with sums over that without: two workers and a server at 40 Gbit/s, batches of 32 (§VII-B, Fig. 5)."""
NAMES = {"resnet50": "ResNet50", "vgg16": "VGG16"}
MODEL_BYTES = {"resnet50": 102e6, "vgg16": 528e6}
"""§VII-B."""
TESTBED_JOBS = (10, 20, 40, 60)

EXACT_S = {40: 3.4, 50: 6.9, 60: 14.8}
FCFS_S = {40: 6.0, 50: 11.2, 60: 23.8, 80: 29.9, 100: 31.8}
WINDOW_S = {40: 4.1, 50: 8.2, 60: 17.7, 80: 19.8, 100: 26.7}
FIXED_S = {40: 5.1, 50: 9.8, 60: 21.7, 80: 21.7, 100: 30.7}
"""CT-BTI of MILP, INC-FCFS, INC-TW and INC-TW-NoRecon by number of jobs, 8 units (§VII-C, Table I)."""

UNITS, PORTS, PLACES, PER_SLOT = 64, 24, 4, 20.0
SERVERS_A_UNIT = 64
LARGE_JOBS = (800, 1000, 1200, 1400)
SWEPT_JOBS = 1000
"""§VII-C."""
