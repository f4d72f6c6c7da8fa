"""What a notice says of causes, amounts and pages is what the lists of dead events say; nothing there holds it up."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

import pytest

from alerts.engine import AlertNotice, NoticeKind
from alerts.rules import Severity
from alerts.standing import NoticeDescriber
from core.decision import Decision
from core.money import Money
from dead_letters.dead_letter_index import DeadLetterIndex
from tests.dead_items import DeadItems

AT = datetime(2026, 1, 31, 12, tzinfo=UTC)
URL = "https://payhook.example"


def notice(rule: str, subject: str = "ledger", kind: NoticeKind = NoticeKind.FIRING) -> AlertNotice:
    return AlertNotice("a", 1, kind, rule, subject, Severity.WARNING, "t", 4.0, 1.0, AT, AT, "r", count=4)


def ten_euros(_provider: str, _type: str, body: bytes) -> Money:
    return Money(1_000, "EUR")


def nothing_unknown(_what: str) -> Mapping[str, int]:
    return {}


def describer(index: DeadLetterIndex, url: str = URL) -> NoticeDescriber:
    return NoticeDescriber({"ledger": index}, nothing_unknown, url)


def test_a_notice_of_dead_events_has_the_most_frequent_cause_the_open_ones_and_what_they_come_to(
    tmp_path: Path,
) -> None:
    items = DeadItems(tmp_path)
    items.deaths(3)
    items.dead(error_class="Rejected", error_message="no")
    items.then(items.dead(), Decision.RESOLVED)
    items.commit(with_bodies=True)
    described = describer(items.index(amounts=ten_euros))(notice("dlq_depth"))
    assert (described.count, described.amounts) == (4, {"EUR": 4_000})
    assert described.cause.startswith("MerchantUnknown: merchant ")
    assert described.link == f"{URL}/dlq?stream=ledger"


@pytest.mark.parametrize(
    ("rule", "page"),
    [
        *(("dlq_escalation", "/dlq?stream=ledger"), ("unknown", "/ledger/unknown"), ("disk", "/alerts")),
        *(("verify", "/ledger/verification"), ("verification", "/ledger/verification"), ("not_ready", "/alerts")),
    ],
)
def test_each_notice_links_to_the_page_that_shows_it_and_has_no_link_where_no_address_is_set(
    tmp_path: Path, rule: str, page: str
) -> None:
    index = DeadItems(tmp_path).index()
    assert describer(index)(notice(rule)).link == f"{URL}{page}"
    assert describer(index, "")(notice(rule)).link == ""


def test_a_notice_of_unknown_events_has_what_they_come_to(tmp_path: Path) -> None:
    found = NoticeDescriber({"ledger": DeadItems(tmp_path).index()}, {"stripe: x": {"EUR": 5}}.__getitem__, URL)
    assert found(notice("unknown", "stripe: x")).amounts == {"EUR": 5}


def test_a_list_that_cannot_be_read_holds_no_notice_up(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    items = DeadItems(tmp_path)
    items.dead()
    items.commit()
    next(Path(items.layout.journal).glob("_delta_log/*.json")).write_text("not a log")
    with caplog.at_level(logging.WARNING):
        described = describer(items.index())(notice("dlq_depth"))
    assert (described.link, described.count, described.amounts) == (f"{URL}/dlq?stream=ledger", 4, {})
    assert "can't be read" in caplog.text


@pytest.mark.parametrize("kind", [NoticeKind.RECOVERED, NoticeKind.UNWATCHED])
def test_what_is_over_is_not_looked_up_again(tmp_path: Path, kind: NoticeKind) -> None:
    items = DeadItems(tmp_path)
    items.dead()
    items.commit()
    assert describer(items.index())(notice("dlq_depth", kind=kind)).count == 4
