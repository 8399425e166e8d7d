"""What seeds allow to say, and how numbers are written."""
