"""The read model of dead items: a SQLite file that follows a stream's journal, and may be deleted at any time."""
