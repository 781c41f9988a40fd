"""From the start of a daemon to ready to sum."""
