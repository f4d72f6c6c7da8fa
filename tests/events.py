"""Events as adapters make them."""

from __future__ import annotations

import hashlib
from typing import Any

from core.event import Event


def make_event(
    event_id: str = "evt_1", event_type: str = "charge.captured", provider: str = "stripe", **changes: Any
) -> Event:
    """A live event of the account ``acct_1``: its key follows from these three names, its content's hash from its body.

    ``changes``: whatever else is another way.
    """
    body = changes.get("body", b"{}")
    fields = {
        "event_key": f"{provider}:{event_id}:{event_type}",
        "entity_key": f"{provider}:acct_1:pi_1",
        "content_sha256": hashlib.sha256(body).hexdigest(),
        "content_version": 1,
        "body": body,
        "mode": "live",
        "account": "acct_1",
    }
    return Event(provider=provider, event_id=event_id, event_type=event_type, **{**fields, **changes})
