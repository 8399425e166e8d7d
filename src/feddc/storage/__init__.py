"""Files that are there whole or not at all, and locks: shared by studies and the federation."""
