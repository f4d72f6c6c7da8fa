"""Servers that are started on this machine: Kafka, Redis, and how a server process is run."""
