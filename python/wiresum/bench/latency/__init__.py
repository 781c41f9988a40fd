"""How long the smallest collectives take, and who did them."""
