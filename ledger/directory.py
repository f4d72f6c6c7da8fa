"""Which internal account belongs to a provider's merchant account: a port, and a TOML file behind it."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from core.decision import ErrorKind
from core.errors import PayhookError
from core.routing import of_tenant

ANY_ACCOUNT = "*"
"""The file's word for every account of a provider that has no line of its own."""


@dataclass(frozen=True, slots=True)
class Merchant:
    """A merchant as the ledger knows it."""

    internal_account: str
    closed: bool = False


class MerchantUnknown(PayhookError):
    """The directory doesn't know this account yet; it may learn it, so the event waits."""

    kind = ErrorKind.SNBE

    def __init__(self, provider: str, account: str) -> None:
        self.provider = provider
        self.account = account
        super().__init__(
            f"no merchant for the {provider} account {account!r}; add it to the merchant directory, "
            "the event is tried again by itself"
        )


class MerchantClosed(PayhookError):
    """The merchant's account is closed: nothing is booked on it without a person."""

    kind = ErrorKind.NRE

    def __init__(self, provider: str, account: str, internal_account: str) -> None:
        self.provider = provider
        self.account = account
        self.internal_account = internal_account
        super().__init__(
            f"{internal_account} ({provider} account {account!r}) is closed; open it in the merchant directory and "
            "replay the event, or settle it by hand"
        )


class DirectoryUnreadable(PayhookError):
    """The whole directory can't be read: every event would fail, so the stream waits."""

    kind = ErrorKind.SBE

    def __init__(self, path: Path, problem: str) -> None:
        self.path = path
        self.problem = problem
        super().__init__(f"the merchant directory {path} can't be read: {problem}")


class MerchantDirectory(Protocol):
    """What the handler asks of a directory."""

    def lookup(self, provider: str, account: str, tenant: str | None = None) -> Merchant:
        """The merchant of a provider's account, with a tenant of that tenant's.

        :raises MerchantUnknown: there is none yet
        :raises MerchantClosed: there is one, and it is closed
        """


class FileDirectory:
    """A TOML file, read again whenever it changes.

    ::

        [stripe]
        "acct_1" = "merchant-1"
        "acct_2" = {account = "merchant-2", closed = true}
        "*" = "merchant-main"        # every other account of the provider; "" is the platform's own

        ["shop-a~stripe"]            # all that tenant shop-a has there: none of the above is taken for its accounts
        "*" = "merchant-a"
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._stamp: tuple[int, int, int] | None = None
        self._merchants: Mapping[str, Mapping[str, Merchant]] = {}

    def lookup(self, provider: str, account: str, tenant: str | None = None) -> Merchant:
        """As `MerchantDirectory.lookup`.

        :raises DirectoryUnreadable: the file is missing or isn't such a file
        """
        self._refresh()
        own = of_tenant(tenant, provider)
        accounts = self._merchants.get(own if own in self._merchants else provider, {})
        merchant = accounts.get(account) or accounts.get(ANY_ACCOUNT)
        if merchant is None:
            raise MerchantUnknown(own, account)
        if merchant.closed:
            raise MerchantClosed(provider, account, merchant.internal_account)
        return merchant

    def _refresh(self) -> None:
        try:
            found = self._path.stat()
            stamp = (found.st_mtime_ns, found.st_size, found.st_ino)
            if stamp == self._stamp:
                return
            self._merchants = _parse(self._path.read_bytes(), self._path)
            self._stamp = stamp
        except OSError as missing:
            raise DirectoryUnreadable(self._path, missing.strerror or type(missing).__name__) from missing


def _parse(raw: bytes, path: Path) -> dict[str, dict[str, Merchant]]:
    """By section, then by account."""
    try:
        tree = tomllib.loads(raw.decode("utf-8"))
    except ValueError as wrong:
        raise DirectoryUnreadable(path, str(wrong)) from wrong
    merchants: dict[str, dict[str, Merchant]] = {}
    for section, accounts in tree.items():
        if not isinstance(accounts, dict):
            raise DirectoryUnreadable(path, f"[{section}] isn't a table of accounts")
        merchants[section] = {name: _merchant(value, f'[{section}] "{name}"', path) for name, value in accounts.items()}
    return merchants


def _merchant(value: object, place: str, path: Path) -> Merchant:
    match value:
        case str() if value:
            return Merchant(value)
        case {"account": str() as internal, **rest} if internal and rest.keys() <= {"closed"}:
            closed = rest.get("closed", False)
            if isinstance(closed, bool):
                return Merchant(internal, closed)
    raise DirectoryUnreadable(path, f'{place}: "name" or {{account = "name", closed = true}} is wanted')
