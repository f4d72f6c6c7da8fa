"""Standard Webhooks: what its events are called, what a sender's rules book, and which requests prove."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from typing import Any

from core.errors import Unparseable
from core.money import MoneyInvalid, MovementUnknown
from providers import Request
from tests.unit.providers.samples.table import Comparison, MoneySequence, Refusal, Webhook, books, each, fails, shown
from tests.unit.providers.shapes import NOW_S

KEY = b"k" * 24
SECRET = "whsec_" + base64.b64encode(KEY).decode()
BODY = b'{"type":"payment.captured"}'


def mac(message_id: str = "msg_1", signed_at: object = NOW_S, body: bytes = BODY, key: bytes = KEY) -> str:
    message = f"{message_id}.{signed_at}.".encode() + body
    return base64.b64encode(hmac.new(key, message, hashlib.sha256).digest()).decode()


GOOD = f"v1,{mac()}"
HEADERS: dict[str, str | bytes] = {"id": "msg_1", "timestamp": str(NOW_S), "signature": GOOD}


def sent(body: bytes = BODY, prefix: str = "webhook-", **changed: str | bytes) -> Request:
    """A signed request with other texts in some headers."""
    texts = {**HEADERS, **changed}
    raw = [
        (f"{prefix}{name}".encode(), text.encode() if isinstance(text, str) else text) for name, text in texts.items()
    ]
    return Request(body, raw)


def without(name: str) -> Request:
    return Request(BODY, [pair for pair in sent().headers if pair[0] != f"webhook-{name}".encode()])


def twice(name: str) -> Request:
    return Request(BODY, [*sent().headers, *without_others(name)])


def without_others(name: str) -> list[tuple[bytes, bytes]]:
    return [pair for pair in sent().headers if pair[0] == f"webhook-{name}".encode()]


def signed(message_id: str = "msg_1", signed_at: str = str(NOW_S), key: bytes = KEY) -> Request:
    return sent(id=message_id, timestamp=signed_at, signature=f"v1,{mac(message_id, signed_at, key=key)}")


LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
TWIN = GOOD[:-2] + LETTERS[LETTERS.index(GOOD[-2]) ^ 1] + "="
"""The same bytes by another spelling: base64 throws the last letter's last bits away."""
assert base64.b64decode(TWIN[3:]) == base64.b64decode(GOOD[3:])
MIXED = Request(BODY, [*without("signature").headers, (b"svix-signature", GOOD.encode())])
BAD_SECRETS = ("", "whsec_", "whsec_é", "whsec_a", "whsec_AA AA", "whpk_####")
SIGNED = sent()


def refusal(case: str, request: Request, reason: str | None, *secrets: str) -> Refusal:
    return Refusal(case, request, reason, secrets or (SECRET,))


REFUSALS = [
    *(refusal(f"the names {prefix}…", sent(prefix=prefix), None) for prefix in ("webhook-", "svix-")),
    refusal("names of both families", MIXED, "missing"),
    *(
        row
        for name in HEADERS
        for row in (refusal(f"no {name}", without(name), "missing"), refusal(f"two of {name}", twice(name), "several"))
    ),
    *(
        refusal(f"a good signature of several: {shown(header)}", sent(signature=header), None)
        for header in (f"v1,AAAA {GOOD}", f"{GOOD} v1a,AAAA", f"v2,AAAA v1a,BBBB {GOOD} v1,")
    ),
    *(
        refusal(f"only version 1 counts: {header!r}", sent(signature=header.format(mac())), "missing")
        for header in ("", "v1a,{0}", "v2,{0}", "{0}", "V1,{0}", "v1 {0}")
    ),
    *(
        refusal(f"another spelling of the signature: {what}", sent(signature=spelling), "mismatch")
        for what, spelling in (
            ("other spare bits", TWIN),
            ("without its end", GOOD.rstrip("=")),
            ("with a line end", GOOD[:5] + "\n" + GOOD[5:]),
        )
    ),
    *(
        refusal(f"a signature of {value!r}", sent(signature=value), "mismatch")
        for value in (b"v1,\xff\xfe", "v1,é".encode(), b"v1,", b"v1,\x00")
    ),
    *(
        refusal(f"a timestamp of {at!r}", signed(signed_at=at), "malformed")
        for at in ("", "nan", "inf", "1769860800.0", "1_769_8608", "17698608001")
    ),
    *(
        refusal(f"an id of {shown(name)}", signed(message_id=name), "malformed")
        for name in ("", "a b", "é", "a\n", "x" * 257)
    ),
    *(
        refusal(f"a secret of {len(key)} bytes, {what}", signed(key=key), None, secret)
        for key in (b"k" * 24, b"k" * 25, b"k" * 26)
        for encoded in (base64.b64encode(key).decode(),)
        for what, secret in (
            ("bare", encoded),
            ("with its prefix", "whsec_" + encoded),
            ("without its padding", "whsec_" + encoded.rstrip("=")),
        )
    ),
]

# A sender's body is described by settings.

RULE = {"event_type": "paid", "movement": "capture", "id": "/payment", "amount": "/sum/minor", "currency": "/sum/code"}
OWN = {
    "standardwebhooks": {
        "type": "/event~1name",
        "occurred_at": "/at",
        "entity": "/order/0/id",
        "account": "/shop",
        "money": [RULE],
    }
}
HARMLESS = {"standardwebhooks": {**OWN["standardwebhooks"], "moves_nothing": ["refunded", "paid"]}}
PAID = {
    "event/name": "paid",
    "at": NOW_S,
    "order": [{"id": 77}],
    "shop": "s1",
    "payment": "p1",
    "sum": {"minor": 1250, "code": "eur"},
}


def own(**changed: Any) -> Request:
    return sent(json.dumps({**PAID, **changed}).encode())


PAYOUTS = {
    "standardwebhooks": {
        **OWN["standardwebhooks"],
        "money": [
            {**RULE, "event_type": event_type, "movement": movement}
            for event_type, movement in (
                *(("paid", "capture"), ("bounced", "capture_failed")),
                *(("sent", "payout_paid"), ("came_back", "payout_failed")),
            )
        ],
    }
}


def paid_out(event_type: str) -> Request:
    return own(**{"event/name": event_type, "payment": "o1"})


NAMED = {
    "type": "payment.captured",
    "timestamp": "2026-01-31T12:00:00.5Z",
    "data": {"payment": "pay_1", "account": "shop"},
}
WEBHOOKS = [
    Webhook(
        "an event with all its names",
        sent(json.dumps(NAMED).encode()),
        endpoint="test",
        key="msg_1:payment.captured",
        entity="shop:pay_1",
        account="shop",
        mode="test",
        at="2026-01-31T12:00:00.500000+00:00",
        fails=MovementUnknown,
    ),
    Webhook("an event without an entity is one of its own", sent(), entity=":msg_1", at=None),
    *(
        Webhook(f"poison: {body!r}", sent(body), refused=Unparseable)
        for body in (b"", b"[]", b"{}", b'{"type":""}', b'{"type":1}', b'{"type":"a","type":"b"}', b"\xff")
    ),
    Webhook(
        "a sender's own body",
        own(),
        type="paid",
        entity="s1:77",
        account="s1",
        at="2026-01-31T12:00:00+00:00",
        books="s1:p1:capture 1250 EUR of 77",
        settings=OWN,
    ),
    *(
        Webhook(f"{case} names its pair", paid_out(event_type), books=booked, pair=pair, settings=PAYOUTS)
        for case, event_type, booked, pair in (
            ("a payout", "sent", "s1:o1:payout_paid 1250 EUR", "s1:o1:payout_paid"),
            ("a payout that failed", "came_back", "s1:o1:payout_failed 1250 EUR", "s1:o1:payout_paid"),
        )
    ),
    *fails(
        MovementUnknown,
        ("a type that no rule has", own(**{"event/name": "refunded"}), "the type 'refunded'"),
        settings=OWN,
    ),
    *books(
        ("a type that the settings call harmless", own(**{"event/name": "refunded"}), None),
        ("a type that books, though the settings call it harmless", own(), "s1:p1:capture 1250 EUR of 77"),
        settings=HARMLESS,
    ),
    *fails(
        MoneyInvalid,
        *(
            (f"a sender's own money that can't be trusted: {changed}", own(**changed))
            for changed in each({"payment": None}, {"payment": ""}, {"sum": {}}, {"sum": {"minor": 1.5, "code": "EUR"}})
        ),
        type="paid",
        settings=OWN,
    ),
]
COMPARISONS = [
    Comparison("other blanks", sent(b'{"type":"a","n":1.0}'), sent(b'{ "n":1.0, "type":"a"}'), content=True),
    Comparison(
        "the whole body is content", sent(b'{"type":"a","n":1.0}'), sent(b'{"type":"a","n":1.00}'), content=False
    ),
]

SEQUENCES = [
    MoneySequence("a payout that failed", [paid_out("sent"), paid_out("came_back")], {}, settings=PAYOUTS),
    MoneySequence("a payment that failed", [paid_out("paid"), paid_out("bounced")], {}, settings=PAYOUTS),
    MoneySequence("a payout that failed and was never told", [paid_out("came_back")], {}, settings=PAYOUTS),
]
