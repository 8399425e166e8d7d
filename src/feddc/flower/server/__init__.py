"""The server of a federation on Flower."""
