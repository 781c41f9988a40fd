"""Collectives beside Gloo: sums for one rank each, copies, and both at once."""
