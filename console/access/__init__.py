"""Decides who may do what at the management listener: local users, sessions, tokens, and the role of each route."""
