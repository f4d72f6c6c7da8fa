"""The ledger stream's handler: an event's money fact becomes a balanced booking."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from core.clock import Clock, SystemClock
from core.decision import ErrorKind
from core.errors import PayhookError, SettingError
from core.money import MoneyFact, MovementUnknown
from core.routing import of_tenant
from core.work import Applied, Handler, Ignored, Outcome, Unknown, WorkItem
from ledger.accounts import CHART_VERSION, book_fact, holder_of
from ledger.directory import FileDirectory, HttpDirectory, MerchantDirectory, open_client
from ledger.settings import LedgerSettings
from providers.installed import read_installed_sources
from providers.money import explain_nothing_moved
from providers.reconciled import choose_reader
from providers.registry import build_adapters
from providers.reread import MoneyReader
from providers.settings import ProvidersSettings

log = logging.getLogger(__name__)

NO_ADAPTER = "adapter"
"""A code of `core.work.Unknown`: nobody here can tell whether money moved."""


class FactMismatch(PayhookError):
    """Raised when the body gives another fact than the one that the receiver named and that was looked up."""

    kind = ErrorKind.NRE

    def __init__(self, event_key: str, named: str | None, found: str | None) -> None:
        self.event_key = event_key
        self.named = named
        self.found = found
        differ = f"its body gives {found}" if found != named else "its body gives another amount, currency or account"
        super().__init__(
            f"{event_key}: received with the fact {named}, {differ}. The receiver and the processor "
            "run different versions of the adapter: bring both to one version, then replay the event"
        )


class LedgerHandler:
    def __init__(
        self, adapters: Mapping[str, MoneyReader], directory: MerchantDirectory, version: str | None = None
    ) -> None:
        self.version = version or chart_version()
        self.pure = isinstance(directory, FileDirectory)
        self._adapters = adapters
        self._directory = directory

    def __call__(self, item: WorkItem) -> Outcome:
        """
        :raises FactMismatch: the body's fact isn't the item's, so that it was never looked up, or was named with
            another amount, currency or account
        :raises MerchantUnknown, MerchantClosed, DirectoryUnreadable: from the directory's file
        :raises DirectoryUnavailable, DirectoryRefused, DownstreamHeld: from the directory's service
        :raises MoneyInvalid, Unparseable: from the adapter; the money part can't be trusted
        """
        adapter = self._adapters.get(item.provider)
        if adapter is None:
            return Unknown(NO_ADAPTER, f"no adapter of {item.provider} is installed here")
        try:
            fact = choose_reader(adapter, item.event_type).money(item.body, item.event_type)
        except MovementUnknown as unknown:
            log.info("%s of %s is unknown: %s", item.event_type, item.provider, unknown.code)
            if item.fact_key is not None:
                raise FactMismatch(item.event_key, item.fact_key, None) from unknown
            return Unknown(unknown.code, str(unknown))
        fact_key = of_tenant(item.tenant, fact.fact_key) if fact is not None else None
        log.info("%s of %s reports %s", item.event_type, item.provider, _describe_fact(fact))
        if fact_key != item.fact_key or (fact is not None and fact.sha256 != item.fact_sha256):
            raise FactMismatch(item.event_key, item.fact_key, fact_key)
        if fact is None:
            return Ignored(explain_nothing_moved(adapter, item.event_type))
        log.info("looks up whose account %s at %s is (tenant: %s)", fact.account, item.provider, item.tenant or "none")
        merchant = self._directory.lookup(item.provider, fact.account, item.tenant)
        holder = holder_of(*(fact.holder or (item.provider, fact.account)), item.tenant)
        log.info("it is %s; books %s between it and %s", merchant.internal_account, fact.movement, holder)
        postings = book_fact(fact, holder, merchant.internal_account, item.tenant)
        if not postings:
            return Ignored("an amount of zero moves no money")
        pair = None if fact.pair_key is None else of_tenant(item.tenant, fact.pair_key)
        return Applied(postings, pair, undoes=fact.is_pair_end)


def _describe_fact(fact: MoneyFact | None) -> str:
    if fact is None:
        return "no movement of money"
    money = fact.money
    return f"a {fact.movement} of {money.amount_minor} {money.currency} (minor units) as {fact.fact_key}"


def build(settings: LedgerSettings, providers: ProvidersSettings) -> Handler:
    """Builds the handler, once per Python worker; picklable by reference."""
    directory = open_directory(settings, SystemClock())
    return LedgerHandler(build_adapters(providers), directory, handler_version(providers))


@dataclass(frozen=True, slots=True)
class LedgerDriverSide:
    named: tuple[Path, ...]

    def files(self) -> Mapping[Path, Path]:
        return {path: path for path in self.named}

    def keep(self, note: tuple[str, ...]) -> None: ...


def on_driver(settings: LedgerSettings) -> LedgerDriverSide:
    named = settings.merchants_token_file if settings.merchants_url else settings.merchants_file
    return LedgerDriverSide((Path(named),) if named else ())


def open_directory(settings: LedgerSettings, clock: Clock) -> MerchantDirectory:
    """Opens the directory service where the settings name a URL, else the file.

    :raises SettingError: neither is named, or the service's token file can't be used
    """
    if settings.merchants_url:
        return HttpDirectory(settings.merchants_url, open_client(), clock, settings.merchants_token_file)
    if not settings.merchants_file:
        raise SettingError("ledger.merchants_file", "set the path of the merchant directory")
    return FileDirectory(Path(settings.merchants_file))


DIGEST_CHARS = 8
_OWN = ("accounts.py", "handler.py")


def chart_version() -> str:
    return f"ledger-{CHART_VERSION}"


def handler_version(settings: ProvidersSettings) -> str:
    """Returns such as ``ledger-1.3f9a02c4``: the chart's version, and a digest of the adapters' code, the handler's and
    the settings.

    So it changes with an adapter or its settings. It is the same wherever the same code runs.
    """
    digest = hashlib.sha256(settings.model_dump_json().encode())
    for name, source in _read_sources():
        digest.update(f"\x1f{name}\x1f".encode() + source)
    return f"{chart_version()}.{digest.hexdigest()[:DIGEST_CHARS]}"


def _read_sources() -> list[tuple[str, bytes]]:
    own_files = [(name, files("ledger").joinpath(name).read_bytes()) for name in _OWN]
    adapters = [(file.name, file.read_bytes()) for file in files("providers").iterdir() if file.name.endswith(".py")]
    return [*own_files, *sorted(adapters), *read_installed_sources()]
