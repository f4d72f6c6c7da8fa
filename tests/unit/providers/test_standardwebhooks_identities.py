"""Standard Webhooks' public samples: what each event is called; without rules in the settings none moves money."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.errors import Unparseable
from load.samples import sign
from providers import Adapter, Request
from tests.unit.providers.shapes import NO_MONEY, NOW, Row

IDENTITIES: dict[str, Row | None] = {
    "spec_example": (
        "standardwebhooks:msg_1:example.event",
        "standardwebhooks::msg_1",
        *NO_MONEY,
        "2022-11-03T20:26:10.344522+00:00",
    ),
    "spec_full": (
        "standardwebhooks:msg_1:contact.created",
        "standardwebhooks::msg_1",
        *NO_MONEY,
        "2022-11-03T20:26:10.344522+00:00",
    ),
    # It has no type: proven, and poison.
    "vector_sign_test": None,
}
"""By sample, each sent as ``msg_1``."""


@pytest.mark.parametrize("name", IDENTITIES)
def test_each_sample_is_named_as_written_down(samples: Path, adapter: Adapter, name: str) -> None:
    secret = adapter.new_secret()
    signed = sign(adapter, (samples / f"standardwebhooks/{name}.json").read_bytes(), secret, NOW, "msg_1")
    request = Request(signed.body, [(key.lower().encode(), value.encode()) for key, value in signed.headers.items()])
    assert adapter.verify(request, [secret], NOW) == 0
    expected = IDENTITIES[name]
    if expected is None:
        with pytest.raises(Unparseable):
            adapter.events(request, "live")
        return
    (event,) = adapter.events(request, "live")
    assert event.occurred_at is not None
    assert adapter.money(event.body, event.event_type) is None
    assert (event.event_key, event.entity_key, *NO_MONEY, event.occurred_at.isoformat()) == expected
