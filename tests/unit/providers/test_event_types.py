"""Each type that a provider lists in public is in one table of its adapter; a type that none lists is unknown."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from providers import ProvidersSettings, build_adapters
from providers.event_types import EventTypes, types_of_objects

LISTS = Path(__file__).parents[3] / "providers" / "types"
ADAPTERS = build_adapters(ProvidersSettings())
BY_SETTINGS = {"standardwebhooks"}
"""Their senders are anybody: the settings say what their types mean."""


def listed(provider: str) -> Iterator[str]:
    """A list has a name a line, below the page that it is from."""
    lines = (LISTS / f"{provider}.txt").read_text("utf-8").splitlines()
    assert lines[0].startswith("# https://"), "the page that the names are from comes first"
    yield from (line for line in lines if line and not line.startswith("#"))


@pytest.mark.parametrize("provider", sorted(ADAPTERS.keys() - BY_SETTINGS))
def test_every_type_of_the_public_list_is_in_a_table(provider: str) -> None:
    names = list(listed(provider))
    assert len(names) == len(set(names))
    unknown = [name for name in names if ADAPTERS[provider].event_types.meaning_of(name) == "unknown"]
    assert unknown == [], "say in the adapter's tables what these mean"


@pytest.mark.parametrize("provider", sorted(ADAPTERS.keys() - BY_SETTINGS))
def test_each_table_of_what_moves_nothing_names_its_page(provider: str) -> None:
    types = ADAPTERS[provider].event_types
    assert types.books or types.person
    assert all(page.startswith("https://") and table for page, table in types.nothing.items())


@pytest.mark.parametrize("provider", sorted(ADAPTERS))
def test_a_type_that_no_table_has_is_unknown(provider: str) -> None:
    assert ADAPTERS[provider].event_types.meaning_of("made_up.funds_moved") == "unknown"


def test_a_type_in_two_tables_is_refused() -> None:
    with pytest.raises(AssertionError, match=r"in two tables: payout\.paid"):
        EventTypes(books=frozenset({"payout.paid"}), nothing={"https://x": frozenset({"payout.paid"})})


def test_a_table_by_objects_has_a_type_for_each_action() -> None:
    text = """
    payout: paid
      failed
    v2.core.account[identity]: updated
    """
    assert types_of_objects(text) == {"payout.paid", "payout.failed", "v2.core.account[identity].updated"}
