"""Containers without a container engine: the Dockerfile's image as folders, the compose file's services in namespaces.

Needs root, namespaces and mmdebstrap. What it can't do is said by `NOT_RUN`.
"""
