"""What one person may close, as a stream's settings say it."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from dlq.limits import AloneLimits
from dlq.settings import DlqSettings


def test_shipped_every_currency_has_the_same_limit() -> None:
    alone = DlqSettings().alone
    assert (alone.items_max, alone.amount_minor_max("EUR"), alone.amount_minor_max("JPY")) == (
        100,
        1_000_000,
        1_000_000,
    )


def test_a_named_currency_has_its_own_limit() -> None:
    alone = DlqSettings(alone_amounts_minor_max={"EUR": 5, "*": 7}).alone
    assert (alone.amount_minor_max("EUR"), alone.amount_minor_max("JPY")) == (5, 7)


def test_without_a_limit_for_the_others_they_have_none() -> None:
    assert AloneLimits(100, {"EUR": 5}).amount_minor_max("JPY") is None


@pytest.mark.parametrize("amounts", [{"eur": 1}, {"EURO": 1}, {"": 1}, {"EUR": -1}])
def test_what_is_no_currency_or_no_amount_is_refused(amounts: dict[str, int]) -> None:
    with pytest.raises(ValidationError):
        DlqSettings(alone_amounts_minor_max=amounts)


def test_a_wrong_currency_is_named_with_what_is_wanted() -> None:
    with pytest.raises(ValidationError, match="'eur' is no currency: three capital letters"):
        DlqSettings(alone_amounts_minor_max={"eur": 1})
