"""Optical circuit switches: drivers of devices, the order that makes a device as wanted, and emulated devices."""
