"""Every row of every provider's sample file: names, money, refusals, comparisons, and what sequences come to."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import timedelta
from importlib import import_module
from pathlib import Path
from random import Random
from typing import Any, TypeVar

import pytest

from core.errors import SettingError, Unparseable
from core.event import Event
from core.money import MoneyFact, MoneyInvalid, MovementUnknown
from providers import Adapter, ProvidersSettings, SignatureInvalid, build_adapters
from providers.money import WITHHELD, split_fee
from tests.unit.providers.samples.table import (
    UNSAID,
    Comparison,
    MoneySequence,
    Refusal,
    Settings,
    Webhook,
    holdings,
    request_of,
    told,
    without_provider,
)
from tests.unit.providers.shapes import NOW

FOLDER = Path(__file__).parent / "samples"
NO_PROVIDERS = ("__init__", "table", "public")
PROVIDERS = sorted(file.stem for file in FOLDER.glob("*.py") if file.stem not in NO_PROVIDERS)
ALL_ORDERS_MAX = 5
LOST = ".lost"
"""After the type of a chargeback of Adyen's that is lost at once: what `WITHHELD` is, the other way round."""
SAME_OF_A_LOSS = ("body", "content_sha256", "entity_key", "account", "event_id", "occurred_at")
"""What a lost dispute's event shares with that of the debit before it."""
ORDERS_MAX = 120
T = TypeVar("T")


def samples_of(provider: str) -> Any:
    """A provider's sample file. Besides its rows it may have these:

    ``SETTINGS``: of all its rows. ``SIGNED``: a request, and ``BAD_SECRETS``: secrets that are none of the provider's.
    ``SECRET_PREFIX``: how its secrets begin. ``ANSWER``: status, body and media type that it waits for.
    """
    return import_module(f"tests.unit.providers.samples.{provider}")


def adapter_of(provider: str, settings: Settings) -> Adapter:
    every = getattr(samples_of(provider), "SETTINGS", {})
    return build_adapters(ProvidersSettings.model_validate({**every, **settings}))[provider]


def rows(table: str) -> list[Any]:
    """The rows of that name in all files, as parameters that are called by provider and case."""
    return [
        pytest.param(provider, row, id=f"{provider}: {row.case}")
        for provider in PROVIDERS
        for row in getattr(samples_of(provider), table, ())
    ]


def of_each(name: str) -> list[Any]:
    """What the sample files have under that name, as parameters that are called by provider."""
    values = [(provider, getattr(samples_of(provider), name, None)) for provider in PROVIDERS]
    return [pytest.param(provider, value, id=provider) for provider, value in values if value is not None]


WEBHOOKS, REFUSALS, COMPARISONS, SEQUENCES = (
    rows(table) for table in ("WEBHOOKS", "REFUSALS", "COMPARISONS", "SEQUENCES")
)


@pytest.mark.parametrize("table", [WEBHOOKS, REFUSALS, COMPARISONS, SEQUENCES])
def test_every_case_has_a_name_of_its_own(table: Sequence[Any]) -> None:
    names = Counter(str(row.id) for row in table)
    assert [name for name, times in names.items() if times > 1] == []


def differs(provider: str, case: str, what: str, expected: object, got: object) -> str:
    return f"{provider}, {case!r}: {what} differs\n  expected {expected!r}\n  got      {got!r}"


def as_sent(body: bytes) -> bytes:
    """An event's bytes, without what was fetched beside them."""
    begin, beside = b'{"event":', b',"fetched":'
    return body.removeprefix(begin).partition(beside)[0] if body.startswith(begin) else body


def money_of(adapter: Adapter, event: Event) -> MoneyFact | None:
    """The event's money, with which it has to be named; without where the money can't be told."""
    try:
        fact = adapter.money(event.body, event.event_type)
    except (MoneyInvalid, MovementUnknown, Unparseable):
        assert (event.fact_key, event.fact_sha256) == (None, None)
        raise
    assert (event.fact_key, event.fact_sha256) == ((fact.fact_key, fact.sha256) if fact else (None, None))
    assert fact is None or (fact.account == event.account and fact.fact_key.endswith(fact.movement.value))
    return fact


def readings(provider: str, adapter: Adapter, row: Webhook, events: Sequence[Event]) -> Iterator[tuple[str, list[Any]]]:
    """By column what the events say."""
    yield "type", [event.event_type for event in events]
    yield "key", [without_provider(provider, event.event_key) for event in events]
    yield "entity", [without_provider(provider, event.entity_key) for event in events]
    yield "id", [event.event_id for event in events]
    yield "account", [event.account for event in events]
    yield "at", [event.occurred_at and event.occurred_at.isoformat() for event in events]
    yield "mode", [event.mode for event in events]
    yield "is_poison", [event.poison is not None for event in events]
    if UNSAID is row.books is row.pair is row.holder:
        return
    facts = [money_of(adapter, event) for event in events]
    yield "books", [told(provider, fact) for fact in facts]
    yield "pair", [fact and without_provider(provider, fact.pair) for fact in facts]
    yield "holder", [fact and fact.holder and ":".join(fact.holder) for fact in facts]


def without_fees(events: Sequence[Event]) -> list[Event]:
    return [event for event in events if not split_fee(event.event_type)[1]]


def only(events: Sequence[Event]) -> list[Event]:
    """The one event. That of a lost dispute comes with an event of its own for the debit before the loss, and fees have
    events of their own.
    """
    *before, event = without_fees(events)
    assert [one.event_type for one in before] in ([], [event.event_type + WITHHELD])
    return [event]


@pytest.mark.parametrize(("provider", "row"), WEBHOOKS)
def test_a_webhook_is_named_and_books_as_its_row_says(provider: str, row: Webhook) -> None:
    adapter, request = adapter_of(provider, row.settings), request_of(row.body)
    if row.refused is not None:
        with pytest.raises(row.refused, match=row.says):
            adapter.events(request, row.endpoint)
        return
    every = adapter.events(request, row.endpoint)
    events, of_fees = without_fees(every), [event for event in every if split_fee(event.event_type)[1]]
    if row.fees is not UNSAID:
        assert [told(provider, money_of(adapter, one)) for one in of_fees] == list(row.fees)
    for one in of_fees:
        assert one.content_sha256 == adapter.content_sha256(one.body, one.content_version)
    sent = request.body + (request.fetched.body if request.fetched is not None else b"")
    for event in events:
        assert event.provider == provider
        kept = as_sent(event.body)
        assert kept in sent or provider == "braintree", "its bytes are no part of what was sent"
        assert event.content_sha256 == adapter.content_sha256(event.body, event.content_version)
    if not any(isinstance(getattr(row, column), list) for column in ("type", "key", "books", "is_poison", "entity")):
        events = only(events)
    for before, event in itertools.pairwise(events):
        if before.event_type == event.event_type + WITHHELD or before.event_type + LOST == event.event_type:
            same = {name: getattr(event, name) for name in SAME_OF_A_LOSS}
            assert {name: getattr(before, name) for name in SAME_OF_A_LOSS} == same
    for column, got in readings(provider, adapter, row, events):
        said = getattr(row, column)
        if said is not UNSAID:
            expected = said if isinstance(said, list) else [said] * len(events)
            assert got == expected, differs(provider, row.case, column, expected, got)
    for event in events if row.fails is not None else ():
        assert row.fails is not None
        with pytest.raises(row.fails, match=row.says):
            money_of(adapter, event)


NO_LOSSES = [
    one
    for one in WEBHOOKS
    for provider, row in (one.values,)
    if getattr(adapter_of(provider, {}), "splits_losses", False)
    if isinstance(row.books, str | None) and ":dispute_lost " not in (row.books or "")
]


@pytest.mark.parametrize(("provider", "row"), NO_LOSSES)
def test_a_webhook_that_is_no_loss_has_no_debit_before_it(provider: str, row: Webhook) -> None:
    adapter = adapter_of(provider, row.settings)
    [event] = only(adapter.events(request_of(row.body), row.endpoint))
    with pytest.raises(MovementUnknown, match="the type"):
        adapter.money(event.body, event.event_type + WITHHELD)


@pytest.mark.parametrize(("provider", "row"), REFUSALS)
def test_a_request_is_refused_for_the_reason_that_its_row_has(provider: str, row: Refusal) -> None:
    adapter, got = adapter_of(provider, row.settings), None
    try:
        adapter.verify(row.request, row.secrets, NOW + timedelta(seconds=row.age_s))
    except SignatureInvalid as refused:
        got = refused.reason
    assert got == row.reason, differs(provider, row.case, "the reason", row.reason, got)


@pytest.mark.parametrize(("provider", "row"), COMPARISONS)
def test_two_webhooks_agree_where_their_row_says_so(provider: str, row: Comparison) -> None:
    assert row.first != row.second, "they are the same webhook"
    adapter = adapter_of(provider, row.settings)
    first, second = (without_fees(adapter.events(request_of(body), "live")) for body in (row.first, row.second))
    assert len(first) == len(second)
    for column, names in (
        ("key", ("event_key",)),
        ("entity", ("entity_key",)),
        ("content", ("content_sha256",)),
        ("fact", ("fact_key", "fact_sha256")),
        ("at", ("occurred_at",)),
    ):
        same = getattr(row, column)
        for one, other in zip(first, second, strict=True):
            got = [[getattr(event, name) for name in names] for event in (one, other)]
            assert same is None or (got[0] == got[1]) == same, differs(
                provider, row.case, column, "the same" if same else "another", got
            )


def orders(steps: list[T]) -> Iterator[list[T]]:
    """All orders of a few steps, some of many."""
    if len(steps) <= ALL_ORDERS_MAX:
        yield from (list(order) for order in itertools.permutations(steps))
        return
    shuffled, random = list(steps), Random(0)
    for _ in range(ORDERS_MAX):
        yield list(shuffled)
        random.shuffle(shuffled)


@pytest.mark.row("G2")
@pytest.mark.parametrize(("provider", "row"), SEQUENCES)
def test_a_sequence_leaves_in_the_books_what_its_row_says_in_any_order(provider: str, row: MoneySequence) -> None:
    adapter = adapter_of(provider, row.settings)
    told_facts = [
        [fact for event in adapter.events(request_of(body), "live") if (fact := money_of(adapter, event)) is not None]
        for body in row.webhooks
    ]
    expected = {account: amount for account, amount in row.holds.items() if amount}
    for order in orders(told_facts):
        for times in (1, 3):
            facts = [fact for told_by_one in order * times for fact in told_by_one]
            came = ", ".join(fact.fact_key for fact in facts)
            got = holdings(facts)
            assert got == expected, differs(provider, row.case, f"what is held after {came}", expected, got)


@pytest.mark.parametrize(("provider", "secrets"), of_each("BAD_SECRETS"))
def test_a_secret_of_another_form_is_refused_and_not_used(provider: str, secrets: Sequence[str]) -> None:
    adapter = adapter_of(provider, {})
    for secret in secrets:
        with pytest.raises(SettingError, match=f"secrets/{provider}"):
            adapter.check_secret(secret)
        with pytest.raises(SettingError):
            adapter.verify(samples_of(provider).SIGNED, [secret], NOW)


@pytest.mark.parametrize(("provider", "prefix"), of_each("SECRET_PREFIX"))
def test_a_new_secret_begins_as_the_providers_do(provider: str, prefix: str) -> None:
    assert adapter_of(provider, {}).new_secret().startswith(prefix)


@pytest.mark.parametrize(("provider", "expected"), of_each("ANSWER"))
def test_the_answer_is_what_the_provider_waits_for(provider: str, expected: tuple[int, bytes, str]) -> None:
    answer = adapter_of(provider, {}).accepted()
    assert (answer.status, answer.body, answer.content_type) == expected
