"""Passwords: Argon2id (RFC 9106) with the parameters that it recommends where memory is short: 64 MiB, 3 passes."""

from __future__ import annotations

import functools
import secrets

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError
from argon2.profiles import RFC_9106_LOW_MEMORY

from core.errors import PayhookError

CHARS_MIN = 12
SCORE_MIN = 3
"""The least of zxcvbn's scores 0 to 4: beyond 10^8 guesses, so not a password that people choose first."""
SCORED_CHARS_MAX = 32
"""The characters of a password, from its beginning, that are scored. Signs that may stand for letters double the
ways to read it: 32 of them take half a second, 72 more than three, and the listener answers no one meanwhile."""
NAME_CHARS_MIN = 3
"""The least length of a user's name that no password may hold; shorter ones are in many words."""
BYTES_MAX = 1_024
"""The most bytes of a password: hashing more would take too long."""

_HASHER = PasswordHasher.from_parameters(RFC_9106_LOW_MEMORY)


@functools.cache
def unknown_hash() -> str:
    """Makes the hash of a random password: a name that isn't there is answered after as long as one that is."""
    return _HASHER.hash(secrets.token_hex(32))


class PasswordUnfit(PayhookError):
    def __init__(self, problem: str) -> None:
        self.problem = problem
        super().__init__(f"this password isn't accepted: {problem}")


def hash_password(password: str, name: str) -> str:
    """Hashes a password; salt and parameters are in the hash. ``name``: the user's.

    :raises PasswordUnfit: too short, too long, not text, or easy to guess
    """
    if len(password) < CHARS_MIN:
        raise PasswordUnfit(f"it has {len(password)} characters, {CHARS_MIN} are the least")
    secret = _encode_password(password)
    if secret is None:
        raise PasswordUnfit(f"it is longer than {BYTES_MAX} bytes, or not text")
    _check_guesses(password, name)
    return _HASHER.hash(secret)


def is_password_of(password: str, known: str | None) -> bool:
    """Tells whether it is the password of a hash. Unknown users (None) take the same time and never match."""
    secret = _encode_password(password)
    if secret is None:
        return False
    try:
        return _HASHER.verify(unknown_hash() if known is None else known, secret) and known is not None
    except (VerificationError, InvalidHashError):
        return False


def _check_guesses(password: str, name: str) -> None:
    own_name = name.partition("@")[0]
    if len(own_name) >= NAME_CHARS_MIN and own_name in password.casefold():
        raise PasswordUnfit(f"it holds the user's name, {own_name}")
    # Its lists of words take a tenth of a second, and few commands set a password.
    from zxcvbn import zxcvbn

    judged = zxcvbn(password[:SCORED_CHARS_MAX], user_inputs=[name, *name.split("@"), "payhook"])
    if judged["score"] < SCORE_MIN:
        why = judged["feedback"]["warning"].rstrip(".") or "it is made of common parts"
        part = f", and the first {SCORED_CHARS_MAX} characters count" if len(password) > SCORED_CHARS_MAX else ""
        raise PasswordUnfit(f"it is easy to guess ({why}{part}); take several words that don't belong together")


def _encode_password(password: str) -> bytes | None:
    try:
        secret = password.encode()
    except UnicodeEncodeError:
        return None
    return secret if len(secret) <= BYTES_MAX else None
