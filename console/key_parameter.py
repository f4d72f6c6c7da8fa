"""How the API's description tells of Idempotency-Key."""

from __future__ import annotations

from typing import Any

from ingest.idempotency.request import HEADER, KEY_CHARS_MAX


def key_parameter() -> dict[str, Any]:
    """Of a route that needs one."""
    return {
        "name": HEADER,
        "in": "header",
        "required": True,
        "description": (
            "A new random value for each thing that you want done, such as a UUID in double quotes; the same one when "
            "a request is repeated. Known for 24 hours. See draft-ietf-httpapi-idempotency-key-header."
        ),
        "schema": {"type": "string", "minLength": 1, "maxLength": KEY_CHARS_MAX + 2},
        "example": '"8e03978e-40d5-43e8-bc93-6894a57f9324"',
    }
