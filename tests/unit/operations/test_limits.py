"""What one person may do alone, as settings say it, and what they did alone within a day."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest
from pydantic import ValidationError

from core.decision import Decision
from journal.schema import JournalRow
from operations.done_alone import DAY, DoneAlone
from operations.limits import AloneLimits, LimitKind, Volume
from operations.settings import DlqSettings
from tests.unit.journal.rows import bare_row


def test_shipped_every_currency_has_the_same_limit() -> None:
    alone = DlqSettings().alone_limits
    assert alone.items_max == 100
    assert [alone.amount_minor_max(LimitKind.CLOSED, currency) for currency in ("EUR", "JPY")] == [1_000_000] * 2


def test_a_named_currency_has_its_own_limit() -> None:
    alone = DlqSettings(alone_amounts_minor_max={"EUR": 5, "*": 7}).alone_limits
    assert (alone.amount_minor_max(LimitKind.CLOSED, "EUR"), alone.amount_minor_max(LimitKind.CLOSED, "JPY")) == (5, 7)


def test_without_a_limit_for_the_others_they_have_none() -> None:
    assert AloneLimits(100, {"EUR": 5}).amount_minor_max(LimitKind.CLOSED, "JPY") is None


def test_shipped_an_outage_is_replayed_by_one_person() -> None:
    """100,000 payments of 100 each; a currency that isn't named counts by its items alone."""
    alone, paid = DlqSettings().alone_limits, Counter({"EUR": 100_000 * 100_00, "IDR": 10**12})
    assert alone.why_beyond(LimitKind.REPLAYED, Volume(100_000, paid), Volume()) is None
    assert "100,000 a day" in str(alone.why_beyond(LimitKind.REPLAYED, Volume(1), Volume(100_000)))
    assert "minor units of EUR" in str(alone.why_beyond(LimitKind.REPLAYED, Volume(1, Counter(EUR=1)), Volume(9, paid)))
    assert "100 a day" in str(alone.why_beyond(LimitKind.CLOSED, Volume(101), Volume()))


@pytest.mark.parametrize("setting", ["alone_amounts_minor_max", "alone_replay_amounts_minor_max"])
@pytest.mark.parametrize("amounts", [{"eur": 1}, {"EURO": 1}, {"": 1}, {"EUR": -1}])
def test_what_is_no_currency_or_no_amount_is_refused(setting: str, amounts: dict[str, int]) -> None:
    with pytest.raises(ValidationError):
        DlqSettings.model_validate({setting: amounts})


def test_a_wrong_currency_is_named_with_what_is_wanted() -> None:
    with pytest.raises(ValidationError, match="'eur' isn't a currency: expected three capital letters"):
        DlqSettings(alone_amounts_minor_max={"eur": 1})


def test_shards_together_allow_no_more_than_the_stream() -> None:
    each = AloneLimits(100, {"EUR": 1_000, "*": 5}, 7, {"USD": 2}).of_each(3)
    assert each == AloneLimits(33, {"EUR": 333, "*": 1}, 2, {"USD": 0})
    assert AloneLimits(7, {"EUR": 5}).of_each(1) == AloneLimits(7, {"EUR": 5})


NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)


def command_row(kind: LimitKind | None, items: int, actor: str = "ada", at: datetime = NOW) -> JournalRow:
    headers = None if kind is None else Volume(items, Counter(EUR=100 * items)).to_json(kind)
    return bare_row(1, Decision.REPLAYED, topic="payments.control", decided_at=at, actor=actor, headers=headers)


def test_each_account_and_each_kind_counts_by_itself() -> None:
    rows = [
        command_row(LimitKind.REPLAYED, 2),
        command_row(LimitKind.REPLAYED, 3, " ADA"),
        command_row(LimitKind.CLOSED, 5),
        command_row(LimitKind.REPLAYED, 7, "bob"),
        command_row(None, 0),
    ]
    done = DoneAlone(lambda since: rows)
    assert done.sum_volume("Ada ", LimitKind.REPLAYED, NOW) == Volume(5, Counter(EUR=500))
    assert done.sum_volume("ada", LimitKind.CLOSED, NOW) == Volume(5, Counter(EUR=500))
    assert done.sum_volume("eve", LimitKind.CLOSED, NOW) == Volume()


def test_the_journal_is_read_once_and_what_is_decided_since_is_added() -> None:
    """No order of one item each reads the journal again while its stream waits."""
    looks: list[datetime] = []

    def given_since(since: datetime) -> Sequence[JournalRow]:
        looks.append(since)
        return [command_row(LimitKind.REPLAYED, 2)]

    done = DoneAlone(given_since)
    for expected in (2, 3, 4):
        assert done.sum_volume("ada", LimitKind.REPLAYED, NOW).items == expected
        done.add(command_row(LimitKind.REPLAYED, 1))
    assert looks == [NOW - DAY]


def test_what_is_older_than_a_day_counts_no_more() -> None:
    done = DoneAlone(
        lambda since: [command_row(LimitKind.CLOSED, 2, at=NOW), command_row(LimitKind.CLOSED, 1, at=NOW + DAY)]
    )
    assert done.sum_volume("ada", LimitKind.CLOSED, NOW + DAY).items == 3
    assert done.sum_volume("ada", LimitKind.CLOSED, NOW + DAY + timedelta(microseconds=1)).items == 1
