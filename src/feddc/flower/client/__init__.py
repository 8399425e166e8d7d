"""A client of a federation on Flower: its node, its trainer, its state on disk."""
