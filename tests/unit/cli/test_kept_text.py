"""Every option whose words are kept with an act takes none that a record or a terminal can't hold."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from cli.main import main
from cli.place import KEPT_TEXT


def kept_options(group: click.Group, words: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], click.Parameter]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            yield from kept_options(command, (*words, name))
        elif command is not None:
            yield from (((*words, name), one) for one in command.params if one.name == "reason")


def test_every_reason_is_of_the_one_type() -> None:
    found = list(kept_options(main))
    assert {words for words, _ in found} >= {("ledger", "redact"), ("ledger", "reverse"), ("dlq", "purge")}
    assert [words for words, option in found if option.type is not KEPT_TEXT] == []


@pytest.mark.parametrize("reason", ["", " ", "ada\x1b[2K", "ada\nbob"])
def test_what_cannot_be_kept_is_refused_before_anything_is_done(tmp_path: Path, reason: str) -> None:
    words = ["ledger", "redact", "stripe:evt_1:charge.succeeded", "--reason", reason]
    answer = CliRunner().invoke(main, [*words, "--data", str(tmp_path)])
    assert answer.exit_code == 2
    assert "'--reason': expected one line of 1 to 500 printable characters" in answer.output
    assert list(tmp_path.iterdir()) == []
