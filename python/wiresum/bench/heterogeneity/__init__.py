"""What a slow link and a late worker cost, by method."""
