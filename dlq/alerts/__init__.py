"""Alerts that need no Prometheus: what is looked at, when it is told, to whom."""
