"""Training with late workers, in virtual time."""
