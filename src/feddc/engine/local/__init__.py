"""Local training: the kernel, its gradients and batches, one client at a time or many in rows."""
