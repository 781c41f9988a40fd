"""GOAT's testbed by simulation."""
