"""`wiresum bench elastic`: kills of workers whose job goes on without them and takes them back."""
