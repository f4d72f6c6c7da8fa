"""The providers' secrets, from files: one a line, newest first, read again when they change."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from core.clock import Clock
from core.errors import PayhookError

LOOK_AGAIN_S = 1.0
SECRETS_MAX = 8


class SecretsMissing(PayhookError):
    """A provider without a secret: nothing it sends can be believed."""

    def __init__(self, path: Path, problem: str) -> None:
        self.path = path
        self.problem = problem
        super().__init__(f"{path}: {problem}; write the provider's signing secrets there, one a line, newest first")


@dataclass(slots=True)
class _Read:
    secrets: tuple[str, ...]
    stamp: tuple[int, int]
    looked_at: float


class SecretFiles:
    """``folder/PROVIDER``, or ``folder/PROVIDER.ENDPOINT`` for an endpoint with secrets of its own."""

    def __init__(self, folder: Path, clock: Clock) -> None:
        self._folder = folder
        self._clock = clock
        self._read: dict[Path, _Read] = {}

    def of(self, provider: str, endpoint: str | None) -> tuple[str, ...]:
        """
        :raises SecretsMissing: there is none, or the file can't be read
        """
        path = self._folder / provider
        if endpoint is not None and (own := self._folder / f"{provider}.{endpoint}").exists():
            path = own
        known = self._read.get(path)
        now = self._clock.monotonic()
        if known is None or now - known.looked_at >= LOOK_AGAIN_S:
            known = self._read[path] = self._look(path, known, now)
        return known.secrets

    def _look(self, path: Path, known: _Read | None, now: float) -> _Read:
        try:
            found = path.stat()
            stamp = (found.st_mtime_ns, found.st_size)
            if known is not None and known.stamp == stamp:
                known.looked_at = now
                return known
            secrets = tuple(path.read_text("utf-8").split())
        except (OSError, UnicodeDecodeError) as unreadable:
            raise SecretsMissing(path, str(unreadable)) from unreadable
        if not 1 <= len(secrets) <= SECRETS_MAX:
            raise SecretsMissing(path, f"{len(secrets)} secrets, 1 to {SECRETS_MAX} are wanted")
        return _Read(secrets, stamp, now)
