"""Cells of tables on a narrow terminal."""

from __future__ import annotations

import io

import pytest
from rich.console import Console
from rich.table import Table

from cli.tables import row


def printed(width: int, *values: object, no_wrap: bool = False) -> list[str]:
    """The lines of a table without borders."""
    table = Table.grid(padding=(0, 1))
    for _ in values:
        table.add_column(no_wrap=no_wrap)
    row(table, *values)
    out = io.StringIO()
    Console(file=out, width=width).print(table)
    return [line.rstrip() for line in out.getvalue().splitlines()]


def test_an_account_is_broken_between_its_names() -> None:
    assert printed(24, "provider:stripe/acct_1Nxyz:clearing") == ["provider:stripe/", "acct_1Nxyz:clearing"]


def test_a_name_that_is_wider_than_its_cell_is_broken_and_nothing_is_cut_off() -> None:
    assert printed(10, "abc:0123456789abcdef:x") == ["abc:", "0123456789", "abcdef:x"]


def test_words_are_kept_whole_and_lines_stay_lines() -> None:
    assert printed(16, "no merchant is known\nadd it") == ["no merchant is", "known", "add it"]


def test_what_has_room_is_one_line() -> None:
    assert printed(40, "a:b/c", None, "d e") == ["a:b/c  d e"]


def test_a_column_that_gives_no_way_stays_whole() -> None:
    assert printed(8, "applied:x", no_wrap=True)[0].startswith("applied")


def test_markup_is_text() -> None:
    assert printed(60, "[bold]x[/bold]") == ["[bold]x[/bold]"]


@pytest.mark.parametrize("steering", ["\x1b[31mred", "\u202ereversed"])
def test_what_steers_a_terminal_is_named(steering: str) -> None:
    [line] = printed(60, steering)
    assert steering[0] not in line and steering[1:] in line
