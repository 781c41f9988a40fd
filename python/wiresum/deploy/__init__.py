"""The daemons of a plan: where they run, and what can be asked of them."""
