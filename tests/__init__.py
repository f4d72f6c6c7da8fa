"""Ours: a dependency installs a package of this name too, and without this file that one would be imported."""
