"""The `payhook` command."""
