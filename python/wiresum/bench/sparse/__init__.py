"""Rounds of a sparse model on shaped links, beside servers without sums: `worker` is one rank or one rival's server."""
