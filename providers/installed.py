"""Adapters of packages of one's own, found by their entry points: nothing of payhook's tree names them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from core.errors import PayhookError
from providers.port import Adapter
from providers.settings import ProvidersSettings

ADAPTERS_GROUP = "payhook.providers"
SAMPLES_GROUP = "payhook.samples"
NAME = re.compile("[a-z0-9]{2,32}")
"""It stands in URLs, keys and names of files."""


class AdapterUnusable(PayhookError):
    def __init__(self, entry: EntryPoint, problem: str) -> None:
        self.entry = entry
        self.problem = problem
        super().__init__(f"{_describe_entry(entry)} can't be used: {problem}. Mend or uninstall that package")


class AdapterTwice(PayhookError):
    def __init__(self, name: str, first: EntryPoint | None, second: EntryPoint) -> None:
        self.name = name
        known = "payhook's own" if first is None else _describe_entry(first)
        super().__init__(
            f"two adapters are called {name}: {known}, and {_describe_entry(second)}. Uninstall or rename one"
        )


def find_entry_points(group: str) -> dict[str, EntryPoint]:
    """Finds the entry points of a group by name.

    :raises AdapterTwice: two packages have one name
    """
    by_name: dict[str, EntryPoint] = {}
    for entry in _read_entry_points(group):
        if entry.name in by_name:
            raise AdapterTwice(entry.name, by_name[entry.name], entry)
        by_name[entry.name] = entry
    return by_name


def load_entry(entry: EntryPoint) -> Any:
    try:
        return entry.load()
    except Exception as failed:  # anything may happen in a module of somebody else's
        raise AdapterUnusable(entry, f"{type(failed).__name__}: {failed}") from failed


def open_adapter(entry: EntryPoint, settings: ProvidersSettings) -> Adapter:
    """
    :raises AdapterUnusable: it can't be imported or made, or isn't an adapter of that name
    :raises SettingError: its settings are wrong
    """
    make = load_entry(entry)
    if NAME.fullmatch(entry.name) is None:
        raise AdapterUnusable(entry, "its name must be 2 to 32 small letters and digits")
    try:
        adapter = make(settings)
    except PayhookError:
        raise
    except Exception as failed:  # as above
        raise AdapterUnusable(entry, f"{type(failed).__name__}: {failed}") from failed
    if not isinstance(adapter, Adapter):
        raise AdapterUnusable(entry, "what it makes isn't an adapter (providers/port.py)")
    if adapter.name != entry.name:
        raise AdapterUnusable(entry, f"the adapter calls itself {adapter.name!r}")
    return adapter


def read_installed_sources() -> Iterator[tuple[str, bytes]]:
    """Reads the code of the packages that adapters are in, by the files' names: it decides what is booked."""
    for entry in find_entry_points(ADAPTERS_GROUP).values():
        package = entry.module.rpartition(".")[0] or entry.module
        spec = find_spec(package)
        assert spec is not None, f"{package} was imported for its adapter"
        for folder in map(Path, spec.submodule_search_locations or ()):
            for file in sorted(folder.rglob("*.py")):
                yield f"{package}/{file.relative_to(folder).as_posix()}", file.read_bytes()
        if spec.submodule_search_locations is None and spec.origin is not None:
            yield package, Path(spec.origin).read_bytes()


@cache
def _read_entry_points(group: str) -> tuple[EntryPoint, ...]:
    """Reads the entry points once, when the process asks first; sorted, so that errors are the same each time."""
    return tuple(sorted(entry_points(group=group), key=lambda entry: (entry.name, entry.value)))


def _describe_entry(entry: EntryPoint) -> str:
    package = f"{entry.dist.name} {entry.dist.version}" if entry.dist else "an unknown package"
    return f"{entry.value} of {package} ({entry.group})"
