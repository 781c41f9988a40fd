"""Benchmarks: the product and its rival in the same run, medians and ratios, as a table and as JSON."""
