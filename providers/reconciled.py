"""Events that payhook makes by itself, of movements that only a settlement report names: one form for all providers.

The fact is named as the provider's adapter names it, so whichever of the two comes second (the webhook that was lost,
after all) ends as ``duplicate_fact``. The event is named after the fact, so making it again is a ``duplicate``: its
content is the fact alone, and what differs between two runs (the report's file, the line, who asked) isn't compared.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import TypeVar

from core import strict_json
from core.card_numbers import quote_masked
from core.errors import Unparseable
from core.event import OWN_TYPES, Dedupe, Event, Headers, Mode, quote_text, to_headers
from core.money import Money, MoneyFact, MoneyInvalid, Movement
from core.routing import of_tenant
from providers.fields import ContentVersionUnknown, an_object, content_hash, optional_text, text

RECONCILED = OWN_TYPES + "reconciled"
CONTENT_VERSION = 1
LEFT_OUT: Mapping[int, frozenset[str]] = {1: frozenset({"report"})}
"""By version of the list: where it was found differs between runs, what it is doesn't."""

ACTOR_HEADER = "actor"
TEXT_CHARS_MAX = 80

Reader = TypeVar("Reader")


@dataclass(frozen=True, slots=True)
class Origin:
    """The report's line that named a movement, and who had it booked. ``line`` is the file's, its header's is 1."""

    run_id: str
    report_name: str
    report_sha256: str
    line: int
    actor: str
    reason: str


class ReconciledReader:
    """Reads such events again, whatever their provider; as adapters do for their own."""

    def money(self, body: bytes, event_type: str) -> MoneyFact | None:
        document = an_object(strict_json.load_json(body), "the body")
        if event_type != RECONCILED or document.get("type") != event_type:
            raise Unparseable(f"{quote_masked(event_type, TEXT_CHARS_MAX)} isn't a type that is known here")
        fact = an_object(document.get("fact"), "'fact'")
        amount_minor = fact.get("amount_minor")
        if type(amount_minor) is not int:
            raise MoneyInvalid("the amount isn't an integer")
        return MoneyFact(
            fact_key=text(fact, "fact_key"),
            movement=_parse_movement(text(fact, "movement")),
            account=optional_text(fact, "account") or "",
            payment=optional_text(fact, "payment"),
            money=Money(amount_minor, text(fact, "currency")),
            pair=optional_text(fact, "pair"),
        )

    def content_sha256(self, body: bytes, version: int) -> str:
        if version == 0:
            return hashlib.sha256(body).hexdigest()
        if version not in LEFT_OUT:
            raise ContentVersionUnknown("payhook", version)
        return content_hash(an_object(strict_json.load_json(body), "the body"), LEFT_OUT[version])


_READER = ReconciledReader()


def choose_reader(adapter: Reader, event_type: str) -> Reader | ReconciledReader:
    return _READER if event_type.startswith(OWN_TYPES) else adapter


def build_reconciled_event(
    provider: str,
    fact: MoneyFact,
    entity_key: str,
    occurred_at: datetime,
    origin: Origin,
    mode: Mode,
    tenant: str | None = None,
) -> Event:
    """Builds the event of a movement that no webhook reported. ``fact`` and ``entity_key`` are the adapter's, without
    tenant.

    The same fact gives an event of the same key and content, whenever it is made.
    """
    document = {
        "type": RECONCILED,
        "provider": provider,
        "fact": {
            "fact_key": fact.fact_key,
            "movement": fact.movement.value,
            "account": fact.account,
            "payment": fact.payment,
            "amount_minor": fact.money.amount_minor,
            "currency": fact.money.currency,
            **({} if fact.pair is None else {"pair": fact.pair}),
        },
        "report": asdict(origin),
    }
    return Event(
        provider=provider,
        event_id=fact.fact_key,
        event_type=RECONCILED,
        event_key=of_tenant(tenant, f"{fact.fact_key}:{RECONCILED}"),
        entity_key=of_tenant(tenant, entity_key),
        content_sha256=content_hash(document, LEFT_OUT[CONTENT_VERSION]),
        content_version=CONTENT_VERSION,
        body=strict_json.dump_canonical_json(document),
        mode=mode,
        account=fact.account,
        occurred_at=occurred_at,
        fact_key=of_tenant(tenant, fact.fact_key),
        fact_sha256=fact.sha256,
        tenant=tenant,
    )


def build_reconciled_headers(event: Event, origin: Origin, now: datetime) -> Headers:
    """Builds its Kafka headers: no webhook's source, and who had it made. It has no claim, so the journal decides."""
    source = f"/reconciliations/{origin.run_id}".encode()
    headers = [
        (name, source if name == "ce_source" else value) for name, value in to_headers(event, now, Dedupe.DEFERRED)
    ]
    reported = {ACTOR_HEADER: origin.actor, "reason": origin.reason, "report_sha256": origin.report_sha256}
    return [*headers, *((name, quote_text(value).encode()) for name, value in reported.items())]


def _parse_movement(name: str) -> Movement:
    try:
        return Movement(name)
    except ValueError:
        raise Unparseable(f"{quote_masked(name, TEXT_CHARS_MAX)} isn't a movement that is known here") from None
