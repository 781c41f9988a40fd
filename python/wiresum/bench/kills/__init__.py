"""Servers killed in the middle of training: `worker` is one rank."""
