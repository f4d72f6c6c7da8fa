"""What can go wrong when the ledger is asked."""

from __future__ import annotations

from pathlib import Path

from core.errors import PayhookError


class LedgerUnreadable(PayhookError):
    """A table of the ledger can't be read, or not whole."""

    def __init__(self, what: str, problem: str) -> None:
        self.what = what
        self.problem = problem
        super().__init__(f"{what} can't be read: {problem}. `payhook verify` says what else is wrong")


class NothingBooked(PayhookError):
    """There is no such table yet."""

    def __init__(self, path: str) -> None:
        self.path = path
        super().__init__(f"there is no table at {path}: nothing has been decided yet, or --data names another folder")


class AmountInvalid(PayhookError):
    """A text that isn't an amount of its currency."""

    def __init__(self, text: str, currency: str, problem: str) -> None:
        self.text = text
        self.currency = currency
        self.problem = problem
        super().__init__(f"{text!r} isn't an amount in {currency}: {problem}")


class OutExists(PayhookError):
    """A file stands where an export would go."""

    def __init__(self, path: Path) -> None:
        self.path = path
        super().__init__(f"{path} exists and is left as it is; name another file, or replace it with --overwrite")


class OutUnwritable(PayhookError):
    """An export can't be written; what stood there before stands there still."""

    def __init__(self, path: Path, problem: str) -> None:
        self.path = path
        self.problem = problem
        super().__init__(f"{path} can't be written: {problem}. Nothing was changed there")
