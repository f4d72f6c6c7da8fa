"""Alerts that need no Prometheus: what is looked at, when people are notified, and who."""
