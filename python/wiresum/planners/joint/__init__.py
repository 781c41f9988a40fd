"""Trees over servers and switches, their ways and their shares, decided together."""
