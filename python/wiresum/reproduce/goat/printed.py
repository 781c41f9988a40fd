"""What the paper states, as far as something is computed from it."""

FIG2_SERVER_FRAGMENTS = {"ATP": 7, "GOAT": 3}
FIG2_SWITCH_OUTPUTS = {"ATP": 17, "GOAT": 13}
"""§III-B."""

DENSENET121_IMAGES_PER_S = {"GOAT": 276, "ESA": 240, "ATP": 219, "Geryon": 180}
"""8 workers (§VII-B, Exp. 1)."""
IMAGES_PER_S = {"GOAT": 931, "ESA": 585, "ATP": 512, "Geryon": 465}
EPOCH_S = {"GOAT": 2.2, "ESA": 3.5, "ATP": 4.0, "Geryon": 4.65}
COMMUNICATION_S = {"GOAT": 0.36, "ESA": 1.34, "ATP": 1.64, "Geryon": 1.95}
"""ResNet-18, 16 workers (§VII-B, Exp. 1 to 3)."""
RESNET18_MB = 44
RESNET50_S = {"GOAT": 802.4, "ESA": 1208.48, "ATP": 1312.6, "Geryon": 1416.9}
RESNET50_SPEEDUPS = {"ESA": 1.34, "ATP": 1.39, "Geryon": 1.77}
"""Until an accuracy of 0.7896 (§VII-B, Exp. 1)."""
TRAINING_S = {"GOAT-Async": 207.7, "K-SGD": 324.0, "GOAT": 420.4}
ASYNC_EPOCHS = 200
"""§VII-B, Exp. 5."""
ASYNC_IMAGES_PER_S = {"GOAT": 512, "K-SGD": 668, "GOAT-Async": 766}
"""ResNet-18, 16 workers (§VII-B, Exp. 4)."""

SIMULATED_TOTAL_GB = {"GOAT": 13.7, "ESA": 19.8, "ATP": 20.9, "Geryon": 37.1}
"""Leaf-spine, 35 workers (§VII-C, Exp. 6 and 7)."""
IN_NETWORK_GB = {"GOAT": 9.6, "ESA": 3.2, "ATP": 1.9}
"""Fat-tree, 40 workers (§VII-C, Exp. 6)."""
