"""Trainings of sparse models beside rivals: samples per second and loss over time; `worker` is one rank."""
