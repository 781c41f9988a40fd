"""The planner of XAgg: the choice of servers, and trees over them."""
