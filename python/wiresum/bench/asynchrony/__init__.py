"""Methods of in-network aggregation while workers get out of step, by simulation."""
