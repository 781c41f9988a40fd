"""The planner GRID, and its linear programme."""
