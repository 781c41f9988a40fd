"""What commands cost that compute little: mostly what they import."""
