"""The FedDC paper: its studies, its published numbers, and what it prints for a run."""
