"""JSON pointers (RFC 6901)."""

from __future__ import annotations

from typing import TypeAlias

Path: TypeAlias = tuple[str, ...]


def parse_pointer(text: str) -> Path:
    """
    :raises ValueError: not a pointer to something within a document
    """
    if not text.startswith("/"):
        raise ValueError(f"a JSON pointer starts with '/': {text!r}")
    if "~" in text.replace("~0", "").replace("~1", ""):
        raise ValueError(f"in a JSON pointer '~' is written '~0': {text!r}")
    return tuple(part.replace("~1", "/").replace("~0", "~") for part in text[1:].split("/"))


def resolve(document: object, path: Path) -> object:
    """What the path points to, None where there is nothing."""
    for part in path:
        if isinstance(document, dict):
            document = document.get(part)
        elif isinstance(document, list) and part.isascii() and part.isdigit() and int(part) < len(document):
            document = document[int(part)]
        else:
            return None
    return document
