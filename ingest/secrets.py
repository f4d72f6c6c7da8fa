"""The providers' secrets, from files: one a line, newest first, read again when they change."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from core.clock import Clock
from core.errors import PayhookError
from core.secret_lines import secret_lines
from providers.port import Adapter, WeaklySigningAdapter

API = "-api"
LOOK_AGAIN_S = 1.0
SECRETS_MAX = 8


class SecretsMissing(PayhookError):
    """An endpoint without a secret, or with a file that holds something else: nothing it sends can be believed."""

    def __init__(self, path: Path, problem: str) -> None:
        self.path = path
        self.problem = problem
        super().__init__(
            f"{path}: {problem}; write the provider's signing secrets there, one a line, newest first, nothing else"
        )


@dataclass(slots=True)
class _Read:
    secrets: tuple[str, ...]
    stamp: tuple[int, int]
    looked_at: float


class SecretFiles:
    """``folder/PROVIDER``, and ``folder/PROVIDER.ENDPOINT`` for a provider's further endpoints."""

    def __init__(self, folder: Path, clock: Clock) -> None:
        self._folder = folder
        self._clock = clock
        self._read: dict[str, _Read] = {}

    def of(self, provider: str, endpoint: str | None) -> tuple[str, ...]:
        """The secrets that a request may be signed with.

        :raises SecretsMissing: there is none, or the file can't be read
        """
        return self._secrets(provider if endpoint is None else f"{provider}.{endpoint}")

    def credentials(self, provider: str, endpoint: str | None) -> tuple[str, ...]:
        """What the provider's API is asked with, from ``folder/PROVIDER-api[.ENDPOINT]``; none without the file.

        :raises SecretsMissing: it can't be read, or was there before
        """
        name = api_file(provider, endpoint)
        return self._secrets(name) if name in self._read or (self._folder / name).exists() else ()

    def without_credentials(self, provider: str) -> list[str]:
        """The files of a provider's API credentials that aren't there, though the endpoints have secrets."""
        endpoints = [name.partition(".")[2] for name in _names(self._folder) if name.partition(".")[0] == provider]
        wanted = [api_file(provider, endpoint or None) for endpoint in endpoints]
        return sorted(name for name in wanted if not (self._folder / name).exists())

    def check(self, adapters: Mapping[str, Adapter]) -> None:
        """For the start: every file that is there must hold secrets of its provider's form.

        :raises SecretsMissing: a file that can't be read, or that holds anything but secrets
        :raises SettingError: a secret of another form
        """
        for name in sorted(_names(self._folder)):
            provider = name.partition(".")[0]
            for secret in self._secrets(name) if provider in adapters else ():
                adapters[provider].check_secret(secret)
            asked = adapters.get(provider.removesuffix(API))
            if provider.endswith(API) and isinstance(asked, WeaklySigningAdapter):
                for credential in self._secrets(name):
                    asked.check_credential(credential)

    def _secrets(self, name: str) -> tuple[str, ...]:
        known = self._read.get(name)
        now = self._clock.monotonic()
        if known is None or now - known.looked_at >= LOOK_AGAIN_S:
            known = self._read[name] = self._look(self._folder / name, known, now)
        return known.secrets

    def _look(self, path: Path, known: _Read | None, now: float) -> _Read:
        try:
            found = path.stat()
            stamp = (found.st_mtime_ns, found.st_size)
            if known is not None and known.stamp == stamp:
                known.looked_at = now
                return known
            secrets = secret_lines(path.read_text("utf-8"))
        except (OSError, ValueError) as unreadable:
            raise SecretsMissing(path, str(unreadable)) from unreadable
        if len(secrets) > SECRETS_MAX:
            raise SecretsMissing(path, f"{len(secrets)} secrets, 1 to {SECRETS_MAX} are wanted")
        return _Read(secrets, stamp, now)


def api_file(provider: str, endpoint: str | None) -> str:
    """The name of the file that holds a provider's API credentials."""
    return f"{provider}{API}" if endpoint is None else f"{provider}{API}.{endpoint}"


def _names(folder: Path) -> list[str]:
    try:
        return [path.name for path in folder.iterdir()]
    except OSError:
        return []
