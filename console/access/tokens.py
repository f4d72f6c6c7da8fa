"""Bearer tokens: how one is made, and as what it is kept."""

from __future__ import annotations

import hashlib
import secrets

TOKEN_PREFIX = "payhook_"  # noqa: S105 - how a token begins, so that scanners of leaked secrets know one
TOKEN_BYTES = 32


def new_token() -> str:
    """A bearer token: shown once, kept as its hash."""
    return TOKEN_PREFIX + secrets.token_urlsafe(TOKEN_BYTES)


def token_sha256(secret: str) -> str:
    """Of 256 random bits: nothing slower is needed, nobody can guess them."""
    return hashlib.sha256(secret.encode(errors="replace")).hexdigest()
