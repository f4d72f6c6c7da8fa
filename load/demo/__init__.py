"""The story of `make demo`."""
