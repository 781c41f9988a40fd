"""Daemons that are taken over in the middle of training."""
