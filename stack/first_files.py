"""Files that a fresh data folder needs: a secret for each provider, a key for anchors, and a merchant directory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Protocol

from core.files import create_once
from journal.anchors import new_key

DEFAULT_MERCHANT = "merchant-main"


class SecretMaker(Protocol):
    """What is asked of a provider's adapter."""

    def new_secret(self) -> str: ...


def make_secrets(folder: Path, adapters: Mapping[str, SecretMaker]) -> None:
    """A random secret for each file that isn't there; one a line, newest first, readable by its owner alone."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    for name, adapter in adapters.items():
        create_once(folder / name, adapter.new_secret() + "\n", 0o600)


def make_anchor_key(file: Path) -> None:
    """A random key for the journals' anchors, unless there is one already."""
    file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    create_once(file, new_key() + "\n", 0o600)


def make_merchants(path: Path, providers: Iterable[str]) -> None:
    """A directory that books every account of every provider on one merchant, unless there is one already."""
    lines = [f'[{provider}]\n"*" = "{DEFAULT_MERCHANT}"\n' for provider in providers]
    path.parent.mkdir(parents=True, exist_ok=True)
    create_once(path, "\n".join(lines), 0o644)
