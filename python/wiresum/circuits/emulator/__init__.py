"""Emulated optical switches: a model of the light, and servers that speak the protocols of devices."""
