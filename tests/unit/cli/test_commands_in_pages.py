"""What the pages tell people to type is there: commands, their options, targets of make."""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from cli.main import main
from tests.unit.test_links import CHECKOUT, pages

FENCED = re.compile(r"^```(?:sh|console|bash)\n(.*?)^```", re.MULTILINE | re.DOTALL)
SPAN = re.compile(r"`(?:\.venv/bin/)?(payhook [^`\n]+)`")
CODE = re.compile(r"<code>(payhook [^<\n]+)</code>")
TEMPLATES = sorted((CHECKOUT / "console" / "templates").rglob("*.html"))
MADE = re.compile(r"`make ([a-z-]+)[^`]*`|^make ([a-z-]+)", re.MULTILINE)


def typed(text: str) -> Iterator[str]:
    """Each line after ``payhook`` in a fenced block of a shell's, and each code span that begins so."""
    for block in FENCED.findall(text):
        yield from re.findall(r"^\s*(?:\$ )?(?:\.venv/bin/)?(payhook [^\n]+)$", block, re.MULTILINE)
    yield from SPAN.findall(text)


def problem(line: str) -> str | None:
    """What is wrong with a line that a page tells an operator to type."""
    words = shlex.split(line.split(" #")[0].replace("…", ""), comments=False)[1:]
    command: click.Command = main
    while words and isinstance(command, click.Group) and not words[0].startswith("-"):
        found = command.get_command(click.Context(command), words.pop(0))
        if found is None:
            return f"{line}: there is no such command"
        command = found
    known = {option for one in command.params for option in (*one.opts, *one.secondary_opts)} | {"-h", "--help"}
    unknown = [word for word in words if re.match(r"--?[a-z]", word) and word.partition("=")[0] not in known]
    if unknown:
        return f"{line}: there is no {', '.join(unknown)}"
    return None if isinstance(command, click.Group) else surplus(line, command, words)


def surplus(line: str, command: click.Command, words: list[str]) -> str | None:
    """What a command takes no more: words that are no option, and none of its arguments."""
    try:
        _, rest, _ = command.make_parser(click.Context(command)).parse_args(list(words))
    except click.UsageError as wrong:
        return None if "requires an argument" in wrong.message else f"{line}: {wrong.message}"
    return f"{line}: it doesn't take {' '.join(rest)}" if rest else None


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(CHECKOUT)))
def test_commands_that_a_page_names_are_there(page: Path) -> None:
    assert [reported for line in typed(page.read_text("utf-8")) if (reported := problem(line))] == []


@pytest.mark.parametrize("page", TEMPLATES, ids=lambda page: page.stem)
def test_commands_that_a_page_of_the_console_names_are_there(page: Path) -> None:
    named = [re.sub(r"{{.*?}}", "NAME", line) for line in CODE.findall(page.read_text("utf-8"))]
    assert [reported for line in named if (reported := problem(line))] == []


def test_targets_that_a_page_names_are_there() -> None:
    there = set(re.findall(r"^([a-z-]+):", (CHECKOUT / "Makefile").read_text("utf-8"), re.MULTILINE))
    named = {one or other for page in pages() for one, other in MADE.findall(page.read_text("utf-8"))}
    assert {"demo", "test"} <= named <= there


def test_what_is_not_there_is_found() -> None:
    page = (
        "`payhook up --detach` `payhook dlq lst` `payhook ledger reconciliations 7`\n"
        "```sh\n.venv/bin/payhook verify --deeper   # no\npayhook users\n```\n"
    )
    assert [problem(line) for line in typed(page)] == [
        *("payhook verify --deeper   # no: there is no --deeper", None, None),
        "payhook dlq lst: there is no such command",
        "payhook ledger reconciliations 7: it doesn't take 7",
    ]


def test_the_readme_puts_the_command_on_the_path_before_it_is_typed() -> None:
    readme = (CHECKOUT / "README.md").read_text("utf-8")
    [block] = [one for one in FENCED.findall(readme) if "make setup" in one]
    made, export, *commands = block.splitlines()
    assert made == "make setup"
    found = subprocess.run(["sh", "-c", f"{export}\ncommand -v payhook"], cwd=CHECKOUT, capture_output=True, text=True)
    assert found.stdout.strip() == str(CHECKOUT / ".venv" / "bin" / "payhook")
    assert all(line.startswith("payhook ") for line in commands), commands
