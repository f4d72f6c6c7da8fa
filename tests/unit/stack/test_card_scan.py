"""The scan of the lake for card data: what it finds, what it says of it, and what it reads again."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from core.clock import ManualClock
from core.decision import Decision
from core.event import Dedupe, Event, poison_event, to_headers
from ingest.pan import CardMasker, MaskingKey
from ingest.settings import PanSettings
from journal.bodies import body_files
from ledger.maintain.redact import Order
from load.samples.adyen import AdyenItem, adyen_notification
from load.samples.stripe import stripe_event
from providers import ProvidersSettings, Request, build_adapters
from stack import card_scan
from stack.card_scan import Scanned, places, run_once
from stack.maintenance import redact_event
from stack.rounds import scheduled
from stack.settings import Settings
from tests.backed_up import SmallLake
from tests.unit.journal.rows import marks, row

ADAPTERS = build_adapters(ProvidersSettings())
AT = datetime(2026, 1, 31, 12, tzinfo=UTC)
CARD = "4111111111111111"
PSP = "4012888888881881"
"""A pspReference that looks like a card number."""


@pytest.fixture
def lake(tmp_path: Path) -> SmallLake:
    return SmallLake(tmp_path)


@pytest.fixture
def later() -> ManualClock:
    """A clock by which every file of the test is old enough to be read."""
    return ManualClock(datetime.now(UTC) + 2 * card_scan.SETTLED)


def charge(nth: int, description: str, **more: Any) -> Event:
    event_id, payment = f"evt_{nth}", f"pi_{nth}"
    document = json.loads(
        stripe_event(
            event_id, "charge.succeeded", payment=payment, account="", amount_minor=500, currency="EUR", created=AT
        )
    )
    document["data"]["object"] |= {"description": description, **more}
    [event] = ADAPTERS["stripe"].events(Request(json.dumps(document).encode(), []), "live")
    return event


def refund(reference: str) -> Event:
    item = AdyenItem(reference, "5555555555554444", "Shop", "order-1", "REFUND", 500, "EUR", AT)
    body = adyen_notification([item]).replace(
        b'"additionalData":{', b'"additionalData":{"link":"/p/%b",' % PSP.encode()
    )
    [event] = ADAPTERS["adyen"].events(Request(body, []), "live")
    return event


def keep(lake: SmallLake, events: Sequence[Event]) -> None:
    """As the processor keeps them, in one commit."""
    rows = []
    for event in events:
        lake.seq += 1
        headers = {name: text.decode() for name, text in to_headers(event, AT, Dedupe.CLAIMED)}
        rows.append(
            row(
                lake.seq,
                decision=Decision.DEAD if event.poison else Decision.APPLIED,
                event_key=event.event_key,
                entity_key=event.entity_key,
                fact_key=event.fact_key,
                provider=event.provider,
                account=headers["account"],
                event_type=event.event_type,
                mode=event.mode,
                body_sha256=event.body_sha256,
                headers=json.dumps(headers),
            )
        )
    lake.bodies.append([(event.body_sha256, event.body) for event in events])
    lake.writer.commit(rows, marks(lake.seq), 0)


def as_masked(event: Event) -> Event:
    return CardMasker(PanSettings(), MaskingKey("k" * 32)).masked(event, ADAPTERS[event.provider])


def scan(lake: SmallLake, clock: ManualClock) -> Scanned:
    return run_once(lake.settings, clock)


def found(scanned: Scanned) -> list[tuple[str, tuple[str, ...]]]:
    return sorted((one.event_key, one.places) for one in scanned.found)


def test_what_was_kept_while_masking_was_off_is_found_and_no_number_is_written(
    lake: SmallLake, later: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    keep(lake, [charge(1, "an order"), charge(2, f"card {CARD}", metadata={"a/b": CARD, CARD: "x"})])
    keep(
        lake, [charge(3, "x", notes=["x", {"cvc": "123"}]), poison_event("stripe", f"card {CARD}".encode(), "live", "")]
    )
    scanned = scan(lake, later)
    [poison] = [one for one in scanned.found if ":poison" in one.event_key]
    assert [one for one in found(scanned) if one[0] != poison.event_key] == [
        (
            "stripe:evt_2:charge.succeeded",
            ("/data/object/metadata/a~1b", "/data/object/metadata/411111******1111", "/data/object/description"),
        ),
        ("stripe:evt_3:charge.succeeded", ("/data/object/notes/1/cvc",)),
    ]
    assert poison.places == ("byte 11",)
    assert (scanned.bodies, scanned.whole) == (4, True)
    written = lake.settings.layout.card_scan.read_text("utf-8") + caplog.text
    assert "stripe:evt_2:charge.succeeded" in written and "payhook ledger redact" in written
    assert CARD not in written and "123" not in json.loads(written.partition("\n}")[0] + "\n}")["found"]


def test_a_lake_of_masked_events_and_providers_ids_is_clean(lake: SmallLake, later: ManualClock) -> None:
    masked = as_masked(charge(1, f"card {CARD}", number="4111111111111112", cvc="123", token=int(CARD)))
    assert masked.original_sha256 is not None
    keep(lake, [masked, refund(PSP), charge(2, "an order")])
    scanned = scan(lake, later)
    assert (scanned.found, scanned.bodies, scanned.whole) == ((), 3, True)


def test_a_lake_without_tables_is_clean(tmp_path: Path, later: ManualClock) -> None:
    scanned = run_once(Settings(data_dir=tmp_path), later)
    assert (scanned.found, scanned.bodies, scanned.whole) == ((), 0, True)


def test_test_traffic_is_scanned_too(lake: SmallLake, later: ManualClock) -> None:
    lake.places = lake.settings.layout.ledger("test")
    lake.begin()
    keep(lake, [charge(1, f"card {CARD}")])
    assert [one.stream for one in scan(lake, later).found] == ["ledger-test"]


def test_a_file_is_read_once_and_what_was_found_stays_found(lake: SmallLake, later: ManualClock) -> None:
    keep(lake, [charge(1, f"card {CARD}"), charge(2, "an order")])
    first = scan(lake, later)
    keep(lake, [charge(3, f"card {CARD}")])
    second, third = scan(lake, later), scan(lake, later)
    assert (first.bodies, second.bodies, third.bodies) == (2, 1, 0)
    keys = ["stripe:evt_1:charge.succeeded", "stripe:evt_3:charge.succeeded"]
    assert [key for key, _ in found(third)] == keys
    assert third.files["ledger"] == [one.name for one in body_files(str(lake.places.bodies))]


def test_other_settings_or_code_of_the_masker_read_everything_again(lake: SmallLake, later: ManualClock) -> None:
    keep(lake, [charge(1, "an order", voucher_no="1234567890123")])
    assert scan(lake, later).found == ()
    more = PanSettings(card_fields=(*PanSettings().card_fields, "voucher_no"))
    ingest = lake.settings.ingest.model_copy(update={"pan": more})
    lake.settings = lake.settings.model_copy(update={"ingest": ingest})
    assert found(scan(lake, later)) == [("stripe:evt_1:charge.succeeded", ("/data/object/voucher_no",))]


def test_a_body_whose_row_may_not_be_committed_yet_is_read_the_next_time(lake: SmallLake, later: ManualClock) -> None:
    keep(lake, [charge(1, f"card {CARD}")])
    now = ManualClock(datetime.now(UTC))
    assert (scan(lake, now).bodies, scan(lake, later).bodies) == (0, 1)


def test_a_redacted_body_is_found_no_more(lake: SmallLake, later: ManualClock) -> None:
    keep(lake, [charge(1, f"card {CARD}"), charge(2, f"card {CARD}")])
    assert len(scan(lake, later).found) == 2
    redact_event(lake.settings, "ledger", Order("stripe:evt_1:charge.succeeded", "ada", "a card number"))
    left = json.loads(lake.settings.layout.card_scan.read_text("utf-8"))
    assert [one["event_key"] for one in left["found"]] == ["stripe:evt_2:charge.succeeded"]
    assert [key for key, _ in found(scan(lake, later))] == ["stripe:evt_2:charge.succeeded"]


def test_beyond_the_limit_the_scan_goes_on_once_bodies_are_redacted(
    lake: SmallLake, later: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(card_scan, "FOUND_MAX", 1)
    for number in (1, 2):
        keep(lake, [charge(number, f"card {CARD}")])
    first = scan(lake, later)
    assert (len(first.found), first.whole) == (1, False)
    redact_event(lake.settings, "ledger", Order(first.found[0].event_key, "ada", "a card number"))
    second = scan(lake, later)
    assert len(second.found) == 1 and second.found != first.found


def test_bodies_are_looked_up_a_few_at_a_time(
    lake: SmallLake, later: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(card_scan, "TOGETHER_MAX", 2)
    keep(lake, [charge(number, f"card {CARD}") for number in range(5)])
    assert len(scan(lake, later).found) == 5


def test_a_file_that_cant_be_read_is_said_and_read_again(lake: SmallLake, later: ManualClock) -> None:
    keep(lake, [charge(1, f"card {CARD}")])
    [file] = Path(str(lake.places.bodies)).glob("*.parquet")
    whole = file.read_bytes()
    file.write_bytes(b"PAR1" + bytes(len(whole) - 4))
    broken = scan(lake, later)
    assert not broken.whole and broken.problem
    file.write_bytes(whole)
    assert len(scan(lake, later).found) == 1


def test_a_report_that_is_torn_begins_again(lake: SmallLake, later: ManualClock) -> None:
    keep(lake, [charge(1, f"card {CARD}")])
    scan(lake, later)
    lake.settings.layout.card_scan.write_text("torn", "utf-8")
    assert scan(lake, later).bodies == 1


def test_where_isnt_json_the_byte_is_named() -> None:
    assert places(b"card=4111111111111111", b"card=411111******1111") == ("byte 11",)
    assert places(b'{"a":"x"}', b'{"a":"*"}') == ("/a",)
    assert places(b'["4"]', b'["*"]') == ("/0",)


def test_it_is_scheduled_with_maintenance_where_card_data_is_masked(tmp_path: Path) -> None:
    def names(**settings: Any) -> list[str]:
        return [one.name for one in scheduled(Settings(data_dir=tmp_path, **settings))]

    assert names() == ["maintenance", "card-scan"]
    assert names(ingest={"pan": {"enabled": False}}) == ["maintenance"]
    assert names(ledger={"maintain": {"every_s": 0}}) == []
