"""Rows of sparse models in three tiers, by two thresholds of popularity."""
