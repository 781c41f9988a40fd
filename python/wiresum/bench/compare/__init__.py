"""Methods beside each other on XAgg's test bed: `methods` has an entry for each."""
