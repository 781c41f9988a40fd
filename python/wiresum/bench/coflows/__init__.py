"""Coflows over optical circuits: `turns` beside schedulers of coflows, on a trace or on made ones."""
