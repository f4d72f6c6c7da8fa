"""How Mollie's API is asked: with an API key of one mode, or with a token that says which mode it means."""

from __future__ import annotations

import re
from collections.abc import Sequence

from providers.signature import secret_error

API_URL = "https://api.mollie.com"
OAUTH = "access_"
"""Begins an OAuth token, which is of no mode: it asks for live payments unless it says ``testmode=true``
(https://docs.mollie.com/reference/get-payment). An API key is of one mode and must not say it."""

_KEY = re.compile(r"(?:live|test|access)_[A-Za-z0-9]{20,128}")


def read_key(provider: str, secret: str) -> bytes:
    if not _KEY.fullmatch(secret):
        raise secret_error(provider, "expected an API key of Mollie's: live_…, test_… or access_…")
    return secret.encode("ascii")


def list_queries(keys: Sequence[str], *, is_test: bool) -> tuple[str, ...]:
    return tuple("testmode=true" if is_test and key.startswith(OAUTH) else "" for key in keys)
