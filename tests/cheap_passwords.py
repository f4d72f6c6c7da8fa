"""Hashes of passwords that cost little: what they must cost is tested by their parameters."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from argon2 import PasswordHasher
from argon2.profiles import CHEAPEST

from console.access import passwords

REAL = passwords._HASHER
"""As it is before any test has begun."""


@pytest.fixture(scope="session", autouse=True)
def real_hasher() -> Iterator[PasswordHasher]:
    """What hashes in production. Hundreds of tests sign in, at a tenth of a second and 64 MiB each: not with this."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(passwords, "_HASHER", PasswordHasher.from_parameters(CHEAPEST))
        passwords.unknown_hash.cache_clear()
        yield REAL
    passwords.unknown_hash.cache_clear()
