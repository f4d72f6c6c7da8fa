"""Every page's relative links lead somewhere: to a file of the checkout, and to a heading of it where they name one.
So do commands that start one of payhook's modules, in pages and in code. Tables are whole, and folders' READMEs name
only modules that are there.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[2]
NOT_OURS = {".git", ".venv", ".payhook", "build", "node_modules"}
LINK = re.compile(r"(?<!!)\[[^\]\n]*\]\(\s*<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\s*\)|^\[[^\]]+\]:\s*(\S+)", re.MULTILINE)
FENCE = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)
HEADING = re.compile(r"^#{1,6}\s+(.+?)\s*#*$", re.MULTILINE)
ELSEWHERE = re.compile(r"[a-z][a-z0-9+.-]*:", re.IGNORECASE)


def files(*suffixes: str) -> list[Path]:
    """The checkout's own files with these suffixes."""
    found = []
    for folder, folders, names in os.walk(CHECKOUT):
        folders[:] = [name for name in folders if name not in NOT_OURS]
        found += [Path(folder, name) for name in names if name.endswith(suffixes)]
    return sorted(found)


def pages() -> list[Path]:
    return files(".md")


def links(text: str) -> Iterator[str]:
    for found in LINK.finditer(FENCE.sub("", text)):
        target = found[1] or found[2]
        if not ELSEWHERE.match(target):
            yield target


def anchors(text: str) -> set[str]:
    """The headings as the forges name them: lower case, without punctuation, spaces as hyphens."""
    plain = [re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading) for heading in HEADING.findall(FENCE.sub("", text))]
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in plain}


def broken(page: Path) -> list[str]:
    text = page.read_text("utf-8")
    found = []
    for link in links(text):
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        if not target.is_relative_to(CHECKOUT) or not target.exists():
            found.append(f"{link}: nothing is there")
        elif anchor and anchor not in anchors(target.read_text("utf-8")):
            found.append(f"{link}: it has no such heading")
    return found


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(CHECKOUT)))
def test_relative_links_lead_somewhere(page: Path) -> None:
    assert broken(page) == []


def test_links_that_lead_nowhere_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"{__name__}.CHECKOUT", tmp_path)
    (tmp_path / "there.md").write_text("# What it's for\n```\n# no heading\n```\n")
    (tmp_path / "page.md").write_text(
        "[a](there.md) [b](there.md#what-its-for) [c](https://example.com/x) [d](gone.md) [e](there.md#no-heading)\n"
        "[f](#here) [g](../outside)\n```\n[h](not/a/link)\n```\n[i]: also/gone\n"
    )
    assert [link.split(":")[0] for link in broken(tmp_path / "page.md")] == [
        *("gone.md", "there.md#no-heading", "#here", "../outside", "also/gone"),
    ]


def test_there_are_pages_with_links() -> None:
    assert sum(len(list(links(page.read_text("utf-8")))) for page in pages()) > 50


RULE = re.compile(r"\|(?: ?:?-+:? ?\|)+")
QUOTED = re.compile(r"`[^`]*`")
MODULE = re.compile(r"`([\w/]+\.py)`")


def rows_outside(text: str) -> list[str]:
    """Table rows that a forge shows as text: they follow no head, or have another number of cells."""
    found, cells = [], 0
    for line, following in pairwise([*FENCE.sub("", text).splitlines(), ""]):
        count = QUOTED.sub("", line).replace("\\|", "").count("|")
        if not line.startswith("|"):
            cells = 0
        elif RULE.fullmatch(following):
            cells = count
        elif count != cells:
            found.append(line)
    return found


def test_tables_are_whole() -> None:
    found = {str(page.relative_to(CHECKOUT)): rows_outside(page.read_text("utf-8")) for page in pages()}
    assert {page: rows for page, rows in found.items() if rows} == {}


def test_rows_that_follow_no_head_are_found() -> None:
    whole = "| a | `b|c` |\n|---|---:|\n| d | e \\| f |\n"
    assert rows_outside(whole) == []
    assert rows_outside(f"{whole}\n| g | h |\n") == ["| g | h |"]
    assert rows_outside(f"{whole}| g |\n h |\n") == ["| g |"]


@pytest.mark.parametrize("page", sorted(CHECKOUT.glob("*/README.md")), ids=lambda page: page.parent.name)
def test_a_folders_readme_names_modules_that_are_there(page: Path) -> None:
    below = {path.name for path in page.parent.rglob("*.py")}
    named = MODULE.findall(page.read_text("utf-8"))
    assert [name for name in named if Path(name).name not in below and not (CHECKOUT / name).is_file()] == []


def test_a_page_names_modules_of_the_checkout_that_are_there() -> None:
    made_by_reader = ("fakturo", "tilgo", "own/", "shop/")
    named = {
        (page.name, name)
        for page in [*CHECKOUT.glob("*.md"), *CHECKOUT.glob("docs/*.md")]
        for name in MODULE.findall(page.read_text("utf-8"))
        if "/" in name and page.name != "CHANGELOG.md" and not any(part in name for part in made_by_reader)
    }
    assert {name for page, name in named if page == "architecture.md"} >= {"processor/decide/line.py"}
    assert {(page, name) for page, name in named if not (CHECKOUT / name).is_file()} == set()


COMMAND = re.compile(r"""python3? -m ([a-z_.]+)|"-m", "([a-z_.]+)\"""")
STARTS = re.compile(r"^if __name__ == .__main__.:", re.MULTILINE)


def started() -> dict[str, Path]:
    """Modules of the checkout that some command starts, each with a file that names it; records of decisions tell of
    what was."""
    found: dict[str, Path] = {}
    for path in files(".md", ".py", ".yml", ".yaml", ".sh"):
        if path.name != "CHANGELOG.md" and "decisions" not in path.parts:
            names = [one[1] or one[2] for one in COMMAND.finditer(path.read_text("utf-8"))]
            found |= {name: path for name in names if (CHECKOUT / name.partition(".")[0]).is_dir()}
    return found


def test_modules_that_commands_start_can_be_started() -> None:
    assert {"stack.rounds", "stack.services.processor"} <= started().keys()
    for name, path in started().items():
        file = CHECKOUT.joinpath(*name.split("."))
        main = file / "__main__.py" if file.is_dir() else file.with_suffix(".py")
        assert main.is_file() and (main.name == "__main__.py" or STARTS.search(main.read_text("utf-8"))), (name, path)
