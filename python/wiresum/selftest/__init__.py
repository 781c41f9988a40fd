"""A fragment from this host through every node of a plan, and what it met.

This host takes every seat of the plan, as its secret allows, and sums with itself: `way` asks the kernel how far each
node is, `trial` joins and sums with the sessions that ranks have, `diagnosis` says what a failure means.
"""
