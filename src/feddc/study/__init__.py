"""Experiments: configuration, run directories, and the runs themselves."""
