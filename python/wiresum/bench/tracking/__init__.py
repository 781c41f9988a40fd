"""What the hot set gets while popularity drifts: as tracked, as one would choose it who knows the truth, and once."""
