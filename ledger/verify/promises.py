"""The promises: an SQL text each, whose head is the sentence that it proves, and which finds what offends it."""

from __future__ import annotations

import functools
from dataclasses import dataclass

from ledger.verify.engine import HERE

FOLDER = HERE / "promises"
HEAD = "-- "
NOTE = "--"
"""A line of it alone ends the sentence; what follows of the head is a note for who reads the query."""


@dataclass(frozen=True, slots=True)
class Promise:
    """A promise. ``sentence`` is for an accountant; ``text`` is the whole file; ``sql`` selects offenders."""

    name: str
    sentence: str
    text: str
    sql: str


def list_promise_names() -> list[str]:
    return sorted(path.stem for path in FOLDER.glob("*.sql"))


@functools.cache
def read_promise(name: str) -> Promise:
    text = (FOLDER / f"{name}.sql").read_text()
    lines = text.splitlines()
    head = next((at for at, line in enumerate(lines) if not line.startswith(NOTE)), len(lines))
    sentence = next((at for at, line in enumerate(lines) if line.rstrip() == NOTE), head)
    sentence_text = " ".join(line.removeprefix(HEAD).strip() for line in lines[: min(head, sentence)])
    return Promise(name, sentence_text, text, "\n".join(lines[head:]))
