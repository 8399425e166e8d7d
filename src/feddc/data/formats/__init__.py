"""One module for each on-disk format."""
