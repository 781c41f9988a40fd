"""Training with late workers, live: `worker` is one rank."""
