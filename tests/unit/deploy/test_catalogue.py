"""What the services expose is what the catalogue says, and the page of the docs is made from it."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.metrics import CATALOGUE, MetricEntry, write_page
from tests.unit.deploy.exposed import family_of, samples

CHECKOUT = Path(__file__).parents[3]


def test_nothing_is_exposed_that_is_not_in_the_catalogue() -> None:
    assert {family_of(name) for name in samples()} - CATALOGUE.keys() == set()


@pytest.mark.parametrize("entry", CATALOGUE.values(), ids=lambda entry: entry.name)
def test_an_entry_is_exposed_with_its_labels_and_has_a_meaning_and_a_unit(entry: MetricEntry) -> None:
    exposed = [labels for name, series in samples().items() if family_of(name) == entry.name for labels in series]
    assert exposed and entry.meaning and entry.unit
    assert {frozenset(labels.keys() - {"le"}) for labels in exposed} == {frozenset(entry.all_labels)}


def test_the_page_of_the_docs_is_what_the_catalogue_makes() -> None:
    """`make docs` writes it."""
    assert (CHECKOUT / "docs" / "metrics.md").read_text("utf-8") == write_page(CATALOGUE.values())
