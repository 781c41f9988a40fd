"""Plans of switch networks run live: `run` has the testbed, `worker` is one rank."""
