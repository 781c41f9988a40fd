"""Figures as the paper prints them: what everything recomputed starts from."""

from __future__ import annotations

METHODS = ("XAgg", "TCP-Agg", "SwitchML", "NCCL", "BytePS")
RIVALS = METHODS[1:]

VALUE_BYTES = 4
FRAME_VALUES, FRAME_BYTES = 320, 1328
"""§IV-A: a frame with so many values has so many bytes; the rest is overhead."""

PACKETS_PER_S = {32: 4.19e6, 320: 1.11e6}
"""Fig. 6, one core, by values in a packet."""
CORE_BPS = {"XAgg": 13.03e9, "TCP-Agg": 4.12e9, "DPDK": 14.9e9}
"""§VI-B, one core, each at its best: XAgg with 256 values, TCP-Agg with 320."""
BEST_VALUES = 256
CORES = 10
CORES_BPS = {"XAgg": 99.5e9, "TCP-Agg": 29.8e9}
"""Fig. 8, ten cores."""
HOP_S = {10e9: 149.5e-6, 100e9: 209.3e-6}
"""Fig. 10, by throughput."""
LOSS = {"XAgg": 0.00261, "TCP-Agg": 0.015}
"""Fig. 11, at 100 Gbit/s."""

INITIALIZATION_MS = {"worker": 12.0, "server": 5.0, "PS": 2.0}
UPDATE_MS = {"worker": 2.0, "server": 1.0, "PS": 1.0}
"""§VI-C; of the PS no update is given, and only 1 ms makes the printed mean."""
NODES = {"worker": 7, "server": 2, "PS": 1}

RESNET50_COMMUNICATION_S = {"XAgg": 0.31, "TCP-Agg": 0.61, "SwitchML": 1.66, "NCCL": 1.03, "BytePS": 0.93}
"""Fig. 13, of an epoch."""
RESNET50_PEAK_BPS = {"XAgg": 45.7e9, "TCP-Agg": 16.6e9, "SwitchML": 11.6e9, "NCCL": 14.6e9, "BytePS": 16e9}
"""Fig. 15."""
VGG16_S = {"XAgg": 1116.0, "TCP-Agg": 1334.0, "SwitchML": 1688.0, "NCCL": 1622.0, "BytePS": 1530.0}
"""Fig. 19, of 200 epochs."""
EPOCH_REDUCTION_TO_SWITCHML = {"AlexNet": 0.23, "ResNet50": 0.26, "VGG16": 0.34, "BERT-BiLSTM-CRF": 0.16}
"""Fig. 14."""
BERT_REDUCTION = {"TCP-Agg": 0.08, "SwitchML": 0.16, "NCCL": 0.15, "BytePS": 0.14}
"""§VI-C, of 30 epochs."""
