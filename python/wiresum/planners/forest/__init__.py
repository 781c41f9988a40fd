"""Which trees to spread a gradient over, and how much of it goes over each: the mathematics of the planner `forest`."""
