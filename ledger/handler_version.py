"""What a row's ``handler_version`` says: the chart of accounts, and which code and settings read the event."""

from __future__ import annotations

import hashlib
from importlib.resources import files

from ledger.accounts import CHART_VERSION
from providers.settings import ProvidersSettings

DIGEST_CHARS = 8
_OWN = ("accounts.py", "handler.py")


def chart_version() -> str:
    return f"ledger-{CHART_VERSION}"


def handler_version(settings: ProvidersSettings) -> str:
    """``ledger-1.3f9a02c4``: the chart's version, and a digest of the adapters' code, the handler's and the settings.

    Whoever teaches an adapter a new type, or names it in the settings, changes it without having to think of it. The
    same everywhere where the same code runs.
    """
    digest = hashlib.sha256(settings.model_dump_json().encode())
    for name, source in _sources():
        digest.update(f"\x1f{name}\x1f".encode() + source)
    return f"{chart_version()}.{digest.hexdigest()[:DIGEST_CHARS]}"


def _sources() -> list[tuple[str, bytes]]:
    own = [(name, files("ledger").joinpath(name).read_bytes()) for name in _OWN]
    adapters = [(one.name, one.read_bytes()) for one in files("providers").iterdir() if one.name.endswith(".py")]
    return [*own, *sorted(adapters)]
