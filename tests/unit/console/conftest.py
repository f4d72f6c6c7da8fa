"""The listener's tests sign in often."""

from __future__ import annotations

from tests.cheap_passwords import real_hasher

__all__ = ["real_hasher"]
