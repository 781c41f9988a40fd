"""InGo's trainings: planned rates and batch sizes, and what real batches teach."""
