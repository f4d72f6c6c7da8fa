"""What a page of docs holds in fenced blocks."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

CHECKOUT = Path(__file__).parents[1]

_FENCED = re.compile(
    r"(?:^\*\*`(?P<path>[^`\n]+)`\*\*\n)?^(?P<indent> *)```(?P<language>\w+)\n(?P<text>.*?)^ *```$", re.M | re.S
)


@dataclass(frozen=True)
class Block:
    """A fenced block, the file that it is for (empty: none), and the line of the page that it begins at."""

    path: str
    language: str
    text: str
    line: int = 0


def fenced(page: str) -> Iterator[Block]:
    """Every block of a page; ``page`` is its text."""
    for found in _FENCED.finditer(page):
        line = page.count("\n", 0, found.start("text"))
        text = re.sub(rf"(?m)^{found['indent']}", "", found["text"])
        yield Block(found["path"] or "", found["language"], text, line)


def blocks(page: str) -> Iterator[Block]:
    """The blocks under a file's name; a second diff right after the first is for the same file."""
    path = ""
    for block in fenced(page):
        path = block.path or path
        if block.path or block.language == "diff":
            yield Block(path, block.language, block.text, block.line)


def apply_block(block: Block, folder: Path) -> None:
    """Puts a block into its file: at its end, or, of a diff, lines beside lines that are there."""
    file = folder / block.path
    if block.language != "diff":
        with file.open("a", encoding="utf-8") as lines:
            lines.write(block.text)
        return
    lines_of = block.text.splitlines(keepends=True)
    assert {line[0] for line in lines_of} == {"+", " "}, f"a diff of {block.path} does more than to add lines"
    before = "".join(line[1:] for line in lines_of if line[0] == " ")
    text = file.read_text("utf-8")
    assert text.count(before) == 1, f"{block.path} hasn't these lines once:\n{before}"
    file.write_text(text.replace(before, "".join(line[1:] for line in lines_of)), "utf-8")
