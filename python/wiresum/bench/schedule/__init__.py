"""Jobs over optical circuits: how far `turns` is from what is proven, and its rivals on the same instances."""
