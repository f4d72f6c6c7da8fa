"""Whatever a merchant account is called: what was booked is what a verification reads in rows and bodies again.

Real adapters, headers, batches, handler and promises; Kafka and Delta stand in as lists.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from xml.sax.saxutils import escape

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.event import Dedupe, Event, to_headers
from core.keys import NAME_CHARS_MAX, decode_name, encode_name, key_part, name_of
from core.money import Movement
from core.routing import scope_event
from journal.schema import JournalRow
from ledger.verify.body_checks import COLUMNS, read_body_fact
from ledger.verify.duckdb_engine import DuckDb
from load.samples.sender import Sample
from providers import Request
from providers.settings import MoneyRule, StandardWebhooksSettings
from tests.contract.adapter_cases import CASES
from tests.contract.adapter_cases.case import Case
from tests.examples import examples
from tests.one_merchant import OneMerchant
from tests.unit.ledger.delivered import RealHandler
from tests.unit.ledger.verify.ledgers import name_rows, offenders
from tests.unit.processor.harness import EVENTS, Engine

NAMES = (
    "MüllerECOM",
    "Shop 100% GmbH",
    "Shop 100%25 GmbH",
    "eu:shop",
    "eu/shop",
    "a+b\\c`d",
    "店舗🛍",
    " shop ",
    "x" * 300,
    "🛍" * 300,
    "ü" * 5_000,
    "a\x1fb",
    "sha256-" + "0" * 64,
)
NAMELESS = {"checkout", "gocardless", "mollie", "mollieclassic", "paddle"}
"""Their events name no account that they book on; Checkout.com's one where a setting says where."""
BOOKING = {label: case for label, case in CASES.items() if case.books and label not in NAMELESS}
VERSION = "ledger-2.0123abcd"
PROMISES = ("bookings_are_reported", "one_effect_per_fact_key", "one_effect_per_event_key")


class BookingEngine(Engine):
    """The engine with a provider's adapter, and the ledger's own handler."""

    def __init__(self, folder: Path, case: Case) -> None:
        self.case = case
        self.directory = OneMerchant()
        super().__init__(folder)

    def start(self, *, keeps_index: bool = False) -> None:
        self.real = RealHandler({self.case.name: self.case.adapter()}, VERSION, self.directory)
        self.handler = self.real
        super().start(keeps_index=keeps_index)


def events(case: Case, accounts: Sequence[str], tenant: str | None = None) -> list[Event]:
    """Events of bodies that name each account. Adyen signs none with a colon, so its items stay unsigned."""
    made = []
    for number, account in enumerate(accounts):
        about = Sample(event=f"e{number}", movement=f"m{number}", payment=f"p{number}", account="PLACEHOLDER")
        text = escape(account) if case.name == "braintree" else json.dumps(account)[1:-1]
        body = case.body(about).replace(b"PLACEHOLDER", text.encode())
        request = Request(body, ()) if case.name == "adyen" else case.request(body, case.secrets[0], about)
        made += [scope_event(event, tenant, None) for event in case.adapter().events(request, "live")]
    return made


def applied(engine: BookingEngine) -> list[JournalRow]:
    return [row for row in engine.journal.rows if row.decision.value == "applied"]


def problems(asked: DuckDb, engine: BookingEngine) -> list[object]:
    """What a verification says: of rows alone, then of rows and bodies."""
    rows = [replace(row, batch_seq=row.seq, epoch=1, row_hash="") for row in engine.journal.rows]
    name_rows(asked, rows)
    adapters = {engine.case.name: engine.case.adapter()}
    bodies = [{**{name: getattr(row, name, None) for name in COLUMNS}, "body": body(engine, row)} for row in rows]
    of_bodies = [read_body_fact(row, adapters) for row in bodies if row["postings"] is not None]
    return [*offenders(asked, *PROMISES), *(one for one in of_bodies if one.problem is not None)]


def body(engine: BookingEngine, row: JournalRow) -> bytes:
    return engine.bodies.by_hash[row.body_sha256 or ""]


def booked(folder: Path, case: Case, accounts: Sequence[str]) -> tuple[BookingEngine, list[Event]]:
    """Each account's event, and once more a tenant's."""
    engine, sent = BookingEngine(folder, case), [*events(case, accounts), *events(case, accounts, "shop-a")]
    for event in sent:
        engine.send(EVENTS, event.body, to_headers(event, engine.clock.now(), Dedupe.CLAIMED))
    engine.batch()
    return engine, sent


@pytest.mark.parametrize("label", BOOKING)
def test_a_booking_of_an_account_of_any_name_is_what_a_verification_derives(
    label: str, tmp_path: Path, duckdb: DuckDb
) -> None:
    names = [name for name in NAMES if label != "braintree" or "\x1f" not in name]
    engine, sent = booked(tmp_path, BOOKING[label], names)
    rows = applied(engine)
    assert len(rows) == 2 * len(names), [(row.decision, row.error_message) for row in engine.journal.rows]
    assert problems(duckdb, engine) == []
    accounts = [row.account or "" for row in rows]
    assert accounts == [event.account for event in sent]
    # Several calls are under way at once: which of them asks first is open.
    assert sorted(engine.directory.asked) == sorted(item.account for item in engine.real.items) == sorted(accounts)
    # A blank around a text of XML is none of it.
    kept = [name.strip() in account for name, account in zip(names, accounts, strict=False)]
    assert kept.count(False) == sum(name_of(name) != name for name in names)
    engine.index.close()


CASE = CASES["adyen"]
ODD = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=400)


@given(st.lists(ODD, min_size=1, max_size=5))
@settings(max_examples=examples(30), deadline=None)
def test_whatever_accounts_are_called_their_bookings_are_derived_again(duckdb: DuckDb, accounts: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        engine, _ = booked(Path(folder), CASE, accounts)
        assert len(applied(engine)) == 2 * len(accounts)
        assert problems(duckdb, engine) == []
        engine.index.close()


def test_an_event_of_a_type_with_a_colon_is_handled_under_it(tmp_path: Path, duckdb: DuckDb) -> None:
    samples = CASES["standardwebhooks"].samples
    rule = MoneyRule(event_type="refund:100%", movement=Movement.REFUND, id="/data/id")
    of_type = replace(
        samples,
        refund=lambda sample: samples.refund(sample).replace(b"refund.created", b"refund:100%"),
        settings={"standardwebhooks": StandardWebhooksSettings(money=(rule,))},
    )
    case = Case("standardwebhooks", of_type)
    engine, (event, _) = booked(tmp_path, case, ["acct"])
    row, _ = applied(engine)
    assert (event.event_type, row.event_type, engine.real.items[0].event_type) == ("refund:100%",) * 3
    assert event.event_key.endswith(":refund%3A100%25")
    assert problems(duckdb, engine) == []
    engine.index.close()


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=NAME_CHARS_MAX))
def test_a_name_comes_back_from_its_header(text: str) -> None:
    name = name_of(text)
    assert decode_name(encode_name(name)) == name
    assert decode_name(key_part(name)) in (name, key_part(name))


@pytest.mark.parametrize("text", ["a%", "a%zz", "%ff", "a%2", "%C3", "a%20b", "a%00b", "a%c3%bc"])
def test_a_text_that_is_no_encoding_stays_as_it_is(text: str) -> None:
    assert decode_name(text) == text
