"""Notifies subscribers of what was booked and reversed: signed requests over HTTP, one for each fact and subscriber.

Nothing is imported here, so that settings are read without loading an HTTP client.
"""
