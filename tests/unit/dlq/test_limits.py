"""What one person may do alone, as a stream's settings say it."""

from __future__ import annotations

from collections import Counter

import pytest
from pydantic import ValidationError

from dlq.limits import AloneLimits, Kind, Volume
from dlq.settings import DlqSettings


def test_shipped_every_currency_has_the_same_limit() -> None:
    alone = DlqSettings().alone
    assert alone.items_max == 100
    assert [alone.amount_minor_max(Kind.CLOSED, currency) for currency in ("EUR", "JPY")] == [1_000_000] * 2


def test_a_named_currency_has_its_own_limit() -> None:
    alone = DlqSettings(alone_amounts_minor_max={"EUR": 5, "*": 7}).alone
    assert (alone.amount_minor_max(Kind.CLOSED, "EUR"), alone.amount_minor_max(Kind.CLOSED, "JPY")) == (5, 7)


def test_without_a_limit_for_the_others_they_have_none() -> None:
    assert AloneLimits(100, {"EUR": 5}).amount_minor_max(Kind.CLOSED, "JPY") is None


def test_shipped_an_outage_is_replayed_by_one_person() -> None:
    """100,000 payments of 100 each; a currency that isn't named counts by its items alone."""
    alone, paid = DlqSettings().alone, Counter({"EUR": 100_000 * 100_00, "IDR": 10**12})
    assert alone.beyond(Kind.REPLAYED, Volume(100_000, paid), Volume()) is None
    assert "100,000 a day" in str(alone.beyond(Kind.REPLAYED, Volume(1), Volume(100_000)))
    assert "minor units of EUR" in str(alone.beyond(Kind.REPLAYED, Volume(1, Counter(EUR=1)), Volume(9, paid)))
    assert "100 a day" in str(alone.beyond(Kind.CLOSED, Volume(101), Volume()))


@pytest.mark.parametrize("setting", ["alone_amounts_minor_max", "alone_replay_amounts_minor_max"])
@pytest.mark.parametrize("amounts", [{"eur": 1}, {"EURO": 1}, {"": 1}, {"EUR": -1}])
def test_what_is_no_currency_or_no_amount_is_refused(setting: str, amounts: dict[str, int]) -> None:
    with pytest.raises(ValidationError):
        DlqSettings.model_validate({setting: amounts})


def test_a_wrong_currency_is_named_with_what_is_wanted() -> None:
    with pytest.raises(ValidationError, match="'eur' is no currency: three capital letters"):
        DlqSettings(alone_amounts_minor_max={"eur": 1})


def test_shards_together_allow_no_more_than_the_stream() -> None:
    each = AloneLimits(100, {"EUR": 1_000, "*": 5}, 7, {"USD": 2}).of_each(3)
    assert each == AloneLimits(33, {"EUR": 333, "*": 1}, 2, {"USD": 0})
    assert AloneLimits(7, {"EUR": 5}).of_each(1) == AloneLimits(7, {"EUR": 5})
