"""The simulator's speed and memory: `loads` has the scenarios, `run` runs one of them, `rival` is csg-htsim."""
