"""Jobs over time: files, makers of random ones, and importers of traces."""
