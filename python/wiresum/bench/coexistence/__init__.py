"""Aggregation beside a host's other traffic: `load` is that traffic."""
