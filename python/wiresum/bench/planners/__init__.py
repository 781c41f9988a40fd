"""Planners of switch networks: quality and time; `cbc` is the rival, `replanning` what follows a failure."""
