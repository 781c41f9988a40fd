"""What converting floats to lanes and back costs on a GPU, beside a copy within its memory."""
