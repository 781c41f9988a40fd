"""Gates: a driver of a schedule tells ranks when they may send, and how fast. `spec/circuits.md` has the protocol.

`listener` is the driver's side, `rank` a rank's, and `lines` what both say, with tags by which each knows the other.
"""

FORMAT = "wiresum-gates/2"
"""Value of `format` in a rank's greeting."""
EXPIRY_S = 5.0
"""Seconds after which a shut gate opens by itself: many times what a busy machine lets a driver wait."""
