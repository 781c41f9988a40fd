"""Rates that planners leave to workers; `check` tries them out in simulation."""
