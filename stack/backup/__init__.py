"""`payhook backup` and `payhook restore`: copies of what can't be made again, verified, and put back in place.

A backup folder holds one folder a backup. Each is a set of whole Delta tables that any tool can open, beside a manifest
that names every file with its hash; files that an earlier backup holds already are hard links to it.
"""
