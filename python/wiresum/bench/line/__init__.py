"""`wiresum bench line`: all-reduces where the processor is the limit, and what each costs in processor time."""
