"""What a packet costs a switch in the kernel; the loops are in the native module."""
