"""Every command is where its group says, and none loads what another one needs."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import click
import pytest
from click.testing import CliRunner

from cli.main import LazyGroup, main
from stack.machine import CHECKOUT

HEAVY = ("pandas", "pyarrow", "deltalake", "pyspark", "rocksdict", "fastapi")
"""Each takes 0.3 s to a second to import."""


def groups(group: LazyGroup, name: str = "payhook") -> Iterator[tuple[str, LazyGroup]]:
    yield name, group
    for child, later in group.later.items():
        if later.place.startswith("cli.main:"):
            command = group.get_command(click.Context(group), child)
            assert isinstance(command, LazyGroup)
            yield from groups(command, f"{name} {child}")


def commands() -> list[tuple[str, LazyGroup, str]]:
    assert isinstance(main, LazyGroup)
    return [(f"{name} {child}", group, child) for name, group in groups(main) for child in group.later]


@pytest.mark.parametrize(("group", "name"), [pytest.param(*one, id=words) for words, *one in commands()])
def test_each_command_is_where_its_group_says(group: LazyGroup, name: str) -> None:
    command = group.get_command(click.Context(group), name)
    assert isinstance(command, click.Command)
    assert command.name == name


def test_help_has_a_whole_line_for_each_command() -> None:
    for words, group, name in commands():
        said = CliRunner().invoke(main, [*words.split()[1:-1], "--help"]).output
        assert f"{name} " in said
        assert group.later[name].line in said, "it is cut off, or wrapped"


def test_what_is_not_there_is_refused() -> None:
    said = CliRunner().invoke(main, ["dlq", "lst"])
    assert said.exit_code == 2
    assert "No such command 'lst'" in said.output


def output(*words: str, program: str) -> str:
    """Of a Python that imports the code of this checkout."""
    command = [sys.executable, "-c", program, *words]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60, cwd=CHECKOUT).stdout


@pytest.mark.more(reason="a process for each; it is about how fast a command begins")
@pytest.mark.parametrize("words", ["--help", "dlq --help", "up --help", "down --data DIR", "status --data DIR"])
def test_what_needs_no_table_loads_nothing_that_reads_one(words: str, tmp_path: object) -> None:
    program = (
        "import sys\nfrom click.testing import CliRunner\nfrom cli.main import main\n"
        f"CliRunner().invoke(main, sys.argv[1:])\nprint([name for name in {HEAVY} if name in sys.modules])"
    )
    assert output(*words.replace("DIR", str(tmp_path)).split(), program=program) == "[]\n"


@pytest.mark.more(reason="a process for each; it is about how fast a process begins")
@pytest.mark.parametrize(
    ("module", "without"),
    [
        ("stack.settings", HEAVY),
        ("stack.services.receiver", ("pandas", "pyarrow", "deltalake", "pyspark", "rocksdict")),
        *((name, ("pandas",)) for name in ("stack.services.listener", "stack.alerting")),
        *((name, ("pandas", "fastapi", "redis")) for name in ("cli.dlq_commands", "cli.ledger_commands")),
        *((name, ("pandas",)) for name in ("processor.source.map_stage", "ledger.verify.duckdb_child")),
    ],
)
def test_a_process_loads_nothing_that_it_has_no_use_for(module: str, without: tuple[str, ...]) -> None:
    program = f"import sys, {module}\nprint([name for name in {without} if name in sys.modules])"
    assert output(program=program) == "[]\n"
