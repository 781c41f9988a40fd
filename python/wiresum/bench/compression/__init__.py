"""Trainings whose gradients travel as 32, 16 or 8 bits a value."""
