"""Wiresum sums gradients inside the network, under unmodified PyTorch."""
