"""What a hot row costs a switch in the kernel, and how many rows a server of tables changes; beside PyTorch."""
