"""The main job, end to end: a convolutional network trains over a summing network, and again over Gloo."""
