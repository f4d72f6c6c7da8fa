"""Why a backup can't be made, or not be put back."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from core.errors import PayhookError


class BackupImpossible(PayhookError):
    """No backup could be made; those that are there are as they were."""

    def __init__(self, problem: str) -> None:
        self.problem = problem
        super().__init__(f"no backup was made: {problem}")


class NoBackup(PayhookError):
    """A folder holds no complete backup, or not the one that was named."""

    def __init__(self, folder: Path, problem: str) -> None:
        self.folder = folder
        self.problem = problem
        super().__init__(f"{folder}: {problem}")


class RestoreRefused(PayhookError):
    """Nothing was put back, and nothing changed."""

    def __init__(self, problem: str) -> None:
        self.problem = problem
        super().__init__(f"nothing was restored: {problem}")


class NewerRows(RestoreRefused):
    """The present journals hold rows that the backup doesn't. ``ahead``: how many, by stream."""

    def __init__(self, name: str, ahead: Sequence[tuple[str, int]]) -> None:
        self.name = name
        self.ahead = tuple(ahead)
        counts = ", ".join(f"{count:,} of {stream}" for stream, count in ahead)
        super().__init__(
            f"the present journals hold rows that backup {name} doesn't ({counts}). What Kafka still holds of them is "
            "decided again, the rest isn't. --replace-newer sets them aside"
        )
