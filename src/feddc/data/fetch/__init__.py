"""Where data sets come from, and what of them is on disk."""
