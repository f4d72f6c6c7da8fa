"""A stream's `where` says by an event's headers whether it is the stream's."""

from __future__ import annotations

import pytest

from core.where import EVERYTHING, HeaderFilter, WhereInvalid

CASES = [
    ({}, True),
    ({"mode": "live"}, True),
    ({"mode": "test"}, False),
    ({"tenant": "eu-*"}, True),
    ({"tenant": "us-*"}, False),
    ({"tenant": ["us-*", "eu-shop"]}, True),
    ({"tenant": "!eu-*"}, False),
    ({"tenant": ["eu-*", "!eu-shop"]}, False),
    ({"tenant": ["eu-*", "!eu-bank"]}, True),
    ({"tenant": "EU-*"}, False),
    ({"tenant": "eu-shop", "provider": "adyen"}, False),
    ({"tenant": "eu-????", "provider": "stripe"}, True),
    ({"provider": "[rs]tripe"}, True),
    ({"zone": "a"}, False),
    ({"zone": ["a", ""]}, True),
    ({"zone": "?*"}, False),
    ({"zone": "!a"}, True),
]


@pytest.mark.parametrize(("table", "takes"), CASES)
def test_an_event_of_a_tenant_without_a_zone_is_taken_where_each_header_fits(
    table: dict[str, str | list[str]], takes: bool
) -> None:
    where = HeaderFilter.read(table)
    assert where.is_match("live", "eu-shop", None, "stripe") is takes
    assert HeaderFilter.from_text(where.text) == where


def test_without_a_where_every_event_is_taken() -> None:
    assert EVERYTHING.is_match("test", None, None, "square")


@pytest.mark.parametrize(
    ("table", "key", "said"),
    [
        ({"tennant": "eu-*"}, "tennant", "no such header; they have mode, tenant, zone, provider"),
        ({"tenant": []}, "tenant", "1 to 100 patterns"),
        ({"tenant": "eu-[a"}, "tenant", "never closed"),
        ({"tenant": ["eu", "[]"]}, "tenant", "never closed"),
        ({"tenant": "eu\n"}, "tenant", "printable"),
        ({"mode": "prod"}, "mode", "fits neither live nor test"),
        ({"mode": ["!live", "!test"]}, "mode", "fits neither live nor test"),
    ],
)
def test_what_can_t_be_read_is_refused_with_its_key(table: dict[str, str | list[str]], key: str, said: str) -> None:
    with pytest.raises(WhereInvalid) as refused:
        HeaderFilter.read(table)
    assert (refused.value.key, said in refused.value.problem) == (key, True)
