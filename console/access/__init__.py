"""Who may do what at the management listener: local users, their sessions and tokens, and the role of each route."""
