"""All-reduces over links that lose packets."""
