"""The management listener: health, readiness, status and metrics, on loopback."""
