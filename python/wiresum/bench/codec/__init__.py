"""What converting floats to integers and back costs; the loops are in the native module."""
