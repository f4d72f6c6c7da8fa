"""The page of settings is what the code says."""

from pathlib import Path

from stack.settings_page import page

PAGE = Path(__file__).parents[3] / "docs" / "settings.md"


def test_the_page_in_docs_is_made_from_the_code_as_it_is() -> None:
    assert PAGE.read_text("utf-8") == page(), "run `make docs`"


def test_every_setting_says_what_it_is() -> None:
    rows = [line for line in page().splitlines() if line.startswith("| `")]
    assert len(rows) > 40
    assert all(len(row.split("|")[3].strip()) > 5 for row in rows)
