"""What the demo and benchmarks train: images, and a step of it."""
