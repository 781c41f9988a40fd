"""What protection costs: joins with proofs, and a job beside those who have none."""
