"""What sums lose: lanes of the network beside rings in bfloat16 and float32, against float64."""
