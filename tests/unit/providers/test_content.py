"""A copy of an event may say more, or say other things beside it; with other names or money it is a conflict."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import SubElement, fromstring, tostring

import pytest

from core.errors import PayhookError
from core.event import Event, Mode
from load.samples.sender import Sample
from providers import Adapter
from providers.content import fields_of, read_fields
from tests.contract.adapter_cases import CASES
from tests.contract.adapter_cases.case import GONE, Case, with_value
from tests.contract.adapter_cases.promises import only
from tests.unit.processor.harness import Engine
from tests.unit.providers.samples.table import Webhook, request_of
from tests.unit.providers.test_sample_tables import adapter_of, samples_of

LISTING = {
    label: case
    for label, case in CASES.items()
    if label not in ("stripe", "adyen", "mollieclassic", "standardwebhooks")
}
"""Stripe and Adyen have tests of their own. What Mollie's classic webhooks fetch is a resource and no event. Of
Standard Webhooks nothing is known but what settings say, so that all of the body counts."""
JSON = {label: case for label, case in LISTING.items() if label != "braintree"}

INCIDENTAL: dict[str, list[tuple[str, Any]]] = {
    "adyenplatform": [
        ("timestamp", "2026-02-01T00:00:00Z"),
        ("data.description", "other"),
        ("data.balanceAccount.description", "renamed"),
    ],
    "adyenplatform-payout": [("timestamp", "2026-02-01T00:00:00Z"), ("data.events", []), ("data.reference", "other")],
    "checkout": [
        ("action_invocations", []),
        ("version", "1.0.30"),
        ("data.metadata", {"coupon": "NONE"}),
        ("data.balances", {}),
        ("data.event_links", {}),
    ],
    "gocardless": [
        ("events.0.resource_metadata", {"order": "other"}),
        ("events.0.details.description", "in other words"),
        ("events.0.metadata", {"a": "b"}),
    ],
    "mollie": [("_links", {}), ("createdAt", "2026-02-01T00:00:00Z"), ("_embedded.entity.metadata", {"a": 1})],
    "paddle": [
        ("notification_id", "ntf_other"),
        ("occurred_at", "2026-02-01T00:00:00Z"),
        ("data.updated_at", "2026-02-01T00:00:00Z"),
    ],
    "paypal": [
        ("summary", "in other words"),
        ("create_time", "2026-02-01T00:00:00Z"),
        ("event_version", "2.0"),
        ("links", []),
        ("resource.update_time", "2026-02-01T00:00:00Z"),
    ],
    "razorpay": [("contains", ["refund"]), ("payload.refund.entity.notes", {"a": "b"})],
    "square": [
        ("created_at", "2026-02-01T00:00:00Z"),
        ("location_id", "L2"),
        ("data.object.refund.updated_at", "2026-02-01T00:00:00Z"),
        ("data.object.refund.version", 9),
    ],
}
DECISIVE: dict[str, list[tuple[str, Any]]] = {
    "adyenplatform": [
        ("data.amount.value", 7),
        ("data.amount.currency", "USD"),
        ("data.status", "failed"),
        ("data.categoryData.pspPaymentReference", "other"),
        ("data.balanceAccount.id", "BA2"),
    ],
    "adyenplatform-payout": [("data.amount.value", 7), ("data.status", "failed"), ("data.category", "internal")],
    "checkout": [
        ("data.amount", 7),
        ("data.currency", "USD"),
        ("data.action_id", "act_2"),
        ("data.id", "pay_2"),
        ("type", "payment_captured"),
    ],
    "gocardless": [
        ("events.0.links.payment", "PM2"),
        ("events.0.links.refund", "RF2"),
        ("events.0.action", "paid"),
        ("events.0.links.organisation", "OR2"),
    ],
    "mollie": [
        ("_embedded.entity.amount.value", "7.00"),
        ("_embedded.entity.amount.currency", "USD"),
        ("_embedded.entity.status", "failed"),
        ("_embedded.entity.paymentId", "tr_2"),
    ],
    "paddle": [
        ("data.payout_totals.earnings", "7"),
        ("data.payout_totals.currency_code", "USD"),
        ("data.status", "rejected"),
        ("data.action", "credit"),
        ("data.transaction_id", "txn_2"),
    ],
    "paypal": [
        ("resource.amount.value", "7.00"),
        ("resource.amount.currency_code", "USD"),
        ("resource.status", "PENDING"),
        ("resource.payer.merchant_id", "OTHER"),
        ("resource.id", "R9"),
    ],
    "razorpay": [
        ("payload.refund.entity.amount", 7),
        ("payload.refund.entity.currency", "USD"),
        ("payload.refund.entity.status", "failed"),
        ("payload.refund.entity.payment_id", "pay_2"),
        ("payload.payment.entity.captured", False),
    ],
    "square": [
        ("data.object.refund.amount_money.amount", 7),
        ("data.object.refund.amount_money.currency", "USD"),
        ("data.object.refund.status", "FAILED"),
        ("data.object.refund.payment_id", "p2"),
    ],
}
OF_XML = {
    "amount": "7.00",
    "currency-iso-code": "USD",
    "status": "failed",
    "refunded-transaction-id": "tx9",
    "type": "sale",
    "merchant-account-id": "other",
    "payment-instrument-type": "paypal_account",
    "created-at": "2026-02-01T00:00:00Z",
}


def at(path: str) -> tuple[str | int, ...]:
    return tuple(int(part) if part.isdigit() else part for part in path.split("."))


def of(case: Case, body: bytes) -> Event:
    return only(case, case.request(body, case.secrets[0], Sample()))


def rows(table: dict[str, list[tuple[str, Any]]]) -> list[Any]:
    return [
        pytest.param(label, path, value, id=f"{label}: {path}")
        for label, changes in table.items()
        for path, value in changes
    ]


def test_every_adapter_that_lists_its_fields_is_held_to_both_tables() -> None:
    assert set(INCIDENTAL) == set(DECISIVE) == set(JSON)


@pytest.mark.parametrize(("label", "path", "value"), rows(INCIDENTAL))
def test_a_copy_with_another_incidental_field_is_a_duplicate(label: str, path: str, value: Any, tmp_path: Path) -> None:
    case = LISTING[label]
    body = case.body(Sample())
    first, second = of(case, body), of(case, case.spoiled(body, at(path), value))
    assert first.body != second.body
    assert decided(case, tmp_path, first, second) == ["duplicate"]


@pytest.mark.parametrize(("label", "path", "value"), rows(DECISIVE))
def test_a_copy_with_other_money_or_names_is_a_conflict(label: str, path: str, value: Any, tmp_path: Path) -> None:
    case = LISTING[label]
    body = case.body(Sample())
    first, second = of(case, body), of(case, case.spoiled(body, at(path), value))
    # What is a part of the key makes another event.
    changed = replace(second, event_key=first.event_key)
    assert first.content_sha256 != second.content_sha256
    assert decided(case, tmp_path, first, changed) == ["dead"]


@pytest.mark.parametrize("label", JSON)
def test_fields_that_an_api_adds_make_no_other_content(label: str) -> None:
    case = LISTING[label]
    body = case.body(Sample())
    first, grown = of(case, body), with_more(json.loads(body))
    assert of(case, json.dumps(grown).encode()).content_sha256 == first.content_sha256


def with_more(node: Any) -> Any:
    if isinstance(node, dict):
        return {**{name: with_more(value) for name, value in node.items()}, "added_by_the_api": "x", "more": {"id": []}}
    return [with_more(item) for item in node] if isinstance(node, list) else node


@pytest.mark.parametrize("field", OF_XML)
def test_a_copy_of_braintrees_with_other_money_or_names_is_a_conflict(field: str, tmp_path: Path) -> None:
    case = LISTING["braintree"]
    first, second = of(case, case.body(Sample())), of(case, with_text(case.body(Sample()), field, OF_XML[field]))
    assert (first.event_key, first.content_sha256 == second.content_sha256) == (second.event_key, False)
    assert decided(case, tmp_path, first, second) == ["dead"]


def test_a_copy_of_braintrees_with_other_incidental_elements_is_a_duplicate(tmp_path: Path) -> None:
    case = LISTING["braintree"]
    root = fromstring(case.body(Sample()))
    transaction = subject(root)
    SubElement(transaction, "updated-at").text = "2026-02-01T00:00:00Z"
    SubElement(SubElement(transaction, "customer"), "id").text = "other"
    SubElement(SubElement(SubElement(transaction, "status-history"), "status-event"), "status").text = "voided"
    SubElement(root, "attempt").text = "3"
    first, second = of(case, case.body(Sample())), of(case, tostring(root))
    assert first.body != second.body
    assert decided(case, tmp_path, first, second) == ["duplicate"]


def subject(root: Any) -> Any:
    (found,) = root.find("subject")
    return found


def with_text(body: bytes, field: str, text: str) -> bytes:
    root = fromstring(body)
    found = subject(root).find(field)
    element = SubElement(subject(root), field) if found is None else found
    element.text = text
    return tostring(root)


@pytest.mark.parametrize("label", LISTING)
def test_a_redelivery_of_what_an_older_journal_holds_is_a_duplicate(label: str, tmp_path: Path) -> None:
    """And while receivers of both versions run, in either order."""
    case = LISTING[label]
    newer = of(case, case.body(Sample()))
    assert newer.content_version >= 2
    for version in range(1, newer.content_version):
        sha256 = case.adapter().content_sha256(newer.body, version)
        older = replace(newer, content_version=version, content_sha256=sha256)
        assert version > 1 or older.content_sha256 != newer.content_sha256
        assert decided(case, tmp_path / f"older-{version}", older, newer, older) == ["duplicate", "duplicate"]
        assert decided(case, tmp_path / f"newer-{version}", newer, older, newer) == ["duplicate", "duplicate"]


def test_a_field_that_was_added_to_the_list_counts_since_its_version_and_not_before() -> None:
    adapter = adapter_of("square", samples_of("square").SETTINGS)
    told, other = (samples_of("square").payout_with_fees("payout.paid", ("TRANSFER_FEE", fee)) for fee in (130, 131))
    same = {
        version: adapter.content_sha256(told, version) == adapter.content_sha256(other, version) for version in (2, 3)
    }
    assert same == {2: True, 3: False}


@pytest.mark.parametrize("label", LISTING)
def test_another_copy_of_what_an_older_journal_holds_is_compared_as_that_was(label: str, tmp_path: Path) -> None:
    case = LISTING[label]
    newer, other = (of(case, case.body(Sample(amount_minor=amount))) for amount in (1_250, 1_251))
    older = replace(newer, content_version=1, content_sha256=case.adapter().content_sha256(newer.body, 1))
    assert decided(case, tmp_path, older, replace(other, event_key=older.event_key)) == ["dead"]


def decided(case: Case, folder: Path, first: Event, *others: Event) -> list[str]:
    """What became of the others, each in a batch of its own after the first."""
    folder.mkdir(exist_ok=True)
    engine = Engine(folder)
    engine.adapters[case.name] = case.adapter()
    engine.decided_together(first)
    found = [decision for other in others for decision in engine.decided_together(other)]
    assert all(row.error_class == "EventConflict" for row in engine.journal.rows if row.decision.value == "dead")
    engine.index.close()
    return found


OTHERS = (GONE, "other", "7", "7.00", "USD", "paypal", 7)


@pytest.mark.parametrize("provider", sorted({case.name for case in JSON.values()}))
def test_every_field_that_decides_a_name_or_money_counts(provider: str) -> None:
    """Each value in the samples of what books, with others in its place."""
    missed: dict[str, str] = {}
    for webhook in samples_of(provider).WEBHOOKS:
        adapter, request = adapter_of(provider, webhook.settings), request_of(webhook.body)
        before = told_by(adapter, webhook, request.body)
        if not any(event.fact_key for event in before.values()):
            continue
        for path in leaves(json.loads(request.body)):
            for value in OTHERS:
                changed = json.dumps(with_value(json.loads(request.body), path, value)).encode()
                for key, event in told_by(adapter, webhook, changed).items():
                    if key in before and event.content_sha256 == before[key].content_sha256:
                        same = all(getattr(event, name) == getattr(before[key], name) for name in DECIDED)
                        missed |= {} if same else {".".join(map(str, path)): webhook.case}
    assert not missed


DECIDED = ("account", "entity_key", "fact_key", "fact_sha256")


def told_by(adapter: Adapter, webhook: Webhook, body: bytes) -> dict[str, Event]:
    """The events that can be read, by their keys."""
    mode: Mode = "test" if webhook.endpoint == "test" else "live"
    try:
        events = adapter.events(replace(request_of(webhook.body), body=body), mode)
    except PayhookError:
        return {}
    return {event.event_key: event for event in events if event.poison is None}


def leaves(document: object, at: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Places of what is no object, no array and not null, which may stand for one."""
    if isinstance(document, dict | list):
        for name, value in document.items() if isinstance(document, dict) else enumerate(document):
            yield from leaves(value, (*at, name))
    elif document is not None:
        yield at


def test_fields_are_read_by_their_lines() -> None:
    fields = fields_of(
        """
        : id type
        data.items.*: id
          amount
        data.*: status
        """
    )
    document = {
        "id": "e1",
        "type": None,
        "data": {"items": [{"id": 1}, {"amount": 2}, 3], "a": {"status": "x"}, "b": 7},
    }
    before = copy.deepcopy(document)
    assert read_fields(document, fields) == {
        "id": "e1",
        "data.items.*.id": [1, None, None],
        "data.items.*.amount": [None, 2, None],
        "data.*.status": {"a": "x"},
    }
    assert document == before
    assert read_fields([], fields) == {}
