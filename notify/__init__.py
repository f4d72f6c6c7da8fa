"""Tells subscribers of what was booked and reversed: signed requests over HTTP, one for each fact and subscriber.

Others use `facts`, `settings`, `subscribers`, `disabled`, `sender` and `handler`. Nothing is imported here: who only
wants the subscribers' names must not load an HTTP client for it.
"""
