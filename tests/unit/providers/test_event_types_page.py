"""docs/event-types.md says what the adapters' tables say."""

from __future__ import annotations

from pathlib import Path

from providers import ProvidersSettings, build_adapters
from providers.event_types_page import TITLES, write_page

PAGE = (Path(__file__).parents[3] / "docs" / "event-types.md").read_text("utf-8")


def test_the_page_is_what_make_docs_writes() -> None:
    assert write_page() == PAGE, "write it again: make docs"


def test_every_provider_is_on_it_but_the_one_whose_types_the_settings_say() -> None:
    assert build_adapters(ProvidersSettings()).keys() - TITLES.keys() == {"standardwebhooks"}


def test_every_type_that_books_or_is_for_a_person_is_on_it_for_its_own_provider() -> None:
    adapters = build_adapters(ProvidersSettings())
    for name, title in TITLES.items():
        _, _, after = PAGE.partition(f"\n## {title}\n")
        books, person = after.splitlines()[1:3]
        types = adapters[name].event_types
        assert all(f"`{one.removeprefix('v1.')}`" in books for one in types.books)
        assert all(f"`{one.removeprefix('v1.')}`" in person for one in types.person)
