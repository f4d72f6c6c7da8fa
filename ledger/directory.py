"""The merchant directory maps a provider's merchant account to an internal account: a TOML file, or a service over
HTTP.

The service is asked ``GET {url}?provider=stripe&account=acct_1[&tenant=shop-a]``. It answers 200 with
``{"account": "merchant-1", "closed": false}`` (``closed`` may be left out), or 404 when it doesn't know the account.
Every other answer, and none, is the directory's failure.
"""

from __future__ import annotations

import logging
import threading
import tomllib
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import httpx2
import orjson

from core.clock import Clock, Deadline, retry_after_s
from core.decision import ErrorKind
from core.errors import PayhookError, SettingError
from core.files import TextFiles, TooLarge, problem_of
from core.routing import of_tenant
from core.work import calling

log = logging.getLogger(__name__)

ANY_ACCOUNT = "*"
"""The file's word for every account of a provider that has no line of its own."""

MERCHANTS_BYTES_MAX = 4 << 20
"""Of the file: some 80,000 accounts. Executors are sent it with each job, and parse it in 0.4 s, within the deadline of
the handler's call; beyond that a service is asked."""


@dataclass(frozen=True, slots=True)
class Merchant:
    internal_account: str
    closed: bool = False


class MerchantUnknown(PayhookError):
    kind = ErrorKind.SNBE

    def __init__(self, provider: str, account: str) -> None:
        self.provider = provider
        self.account = account
        super().__init__(
            f"no merchant for the {provider} account {account!r}: add it to the merchant directory; an event that is "
            "dead by then needs a replay"
        )


class MerchantClosed(PayhookError):
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
    kind = ErrorKind.SBE

    def __init__(self, path: Path, problem: str) -> None:
        self.path = path
        self.problem = problem
        super().__init__(f"the merchant directory {path} can't be read: {problem}")


class MerchantDirectory(Protocol):
    def lookup(self, provider: str, account: str, tenant: str | None = None) -> Merchant:
        """The merchant of a provider's account, with a tenant of that tenant's.

        :raises MerchantUnknown: there is none yet
        :raises MerchantClosed: there is one, and it is closed
        """


def _require_open(merchant: Merchant | None, provider: str, account: str, tenant: str | None) -> Merchant:
    if merchant is None:
        raise MerchantUnknown(of_tenant(tenant, provider), account)
    if merchant.closed:
        raise MerchantClosed(provider, account, merchant.internal_account)
    return merchant


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
        self._files = TextFiles(MERCHANTS_BYTES_MAX)
        self._text: str | None = None
        self._merchants: Mapping[str, Mapping[str, Merchant]] = {}

    def lookup(self, provider: str, account: str, tenant: str | None = None) -> Merchant:
        """
        :raises DirectoryUnreadable: the file is missing or isn't such a file
        """
        self._read_if_changed()
        section = of_tenant(tenant, provider)
        accounts = self._merchants.get(section if section in self._merchants else provider, {})
        merchant = accounts.get(account) or accounts.get(ANY_ACCOUNT)
        return _require_open(merchant, provider, account, tenant)

    def _read_if_changed(self) -> None:
        try:
            text = self._files.text(self._path)
        except TooLarge as large:
            raise DirectoryUnreadable(self._path, f"{large}; ledger.merchants_url takes a service instead") from large
        except (OSError, ValueError) as unreadable:
            raise DirectoryUnreadable(self._path, problem_of(unreadable)) from unreadable
        if text is not self._text:
            self._merchants = _parse_merchants(text, self._path)
            self._text = text


def _parse_merchants(text: str, path: Path) -> dict[str, dict[str, Merchant]]:
    try:
        tree = tomllib.loads(text)
    except ValueError as wrong:
        raise DirectoryUnreadable(path, str(wrong)) from wrong
    merchants: dict[str, dict[str, Merchant]] = {}
    for section, accounts in tree.items():
        if not isinstance(accounts, dict):
            raise DirectoryUnreadable(path, f"[{section}] isn't a table of accounts")
        merchants[section] = {
            name: _parse_merchant(value, f'[{section}] "{name}"', path) for name, value in accounts.items()
        }
    return merchants


def _parse_merchant(value: object, place: str, path: Path) -> Merchant:
    match value:
        case str() if value:
            return Merchant(value)
        case {"account": str() as internal, **rest} if internal and rest.keys() <= {"closed"}:
            closed = rest.get("closed", False)
            if isinstance(closed, bool):
                return Merchant(internal, closed)
    raise DirectoryUnreadable(path, f'{place}: expected "name" or {{account = "name", closed = true}}')


DOWNSTREAM = "merchants"
"""Its name among a stream's downstreams."""

ANSWER_BYTES_MAX = 16_384
TIMEOUT_S = 1.0
"""Longest wait for the service: to connect, for each read of its answer, and for the answer as a whole."""

CACHE_S = 60.0

CACHE_MAX = 10_000

CONNECTIONS_MAX = 64
SECRET_BYTES_MAX = 8_192
FOUND, UNKNOWN = 200, 404
REFUSED = frozenset({401, 403})


class DirectoryUnavailable(PayhookError):
    """Raised when the directory gives no answer that can be used; the events that need it wait. Times in seconds."""

    kind = ErrorKind.SNBE

    def __init__(self, url: str, problem: str, retry_after_s: float | None = None) -> None:
        self.url = url
        self.problem = problem
        self.retry_after_s = retry_after_s
        super().__init__(
            f"the merchant directory {url} gave no answer: {problem}. Check that it is up; nothing is lost"
        )


class DirectoryRefused(PayhookError):
    kind = ErrorKind.SBE

    def __init__(self, url: str, problem: str) -> None:
        self.url = url
        self.problem = problem
        super().__init__(f"the merchant directory {url}: {problem}. Put a valid token into ledger.merchants_token_file")


class HttpDirectory:
    """Asks the service, and remembers the merchants that it found for a while.

    It doesn't remember an unknown or a closed merchant: once a person corrects it, the next event sees it. Thread-safe.
    ``client`` carries the timeouts (`open_client`); the one for a read is also the limit of a whole answer. A token is
    read from its file for each request.

    :raises SettingError: the token file can't be used
    """

    def __init__(self, url: str, client: httpx2.Client, clock: Clock, token_file: str = "") -> None:
        self._url = url
        self._client = client
        self._clock = clock
        self._token_file = Path(token_file) if token_file else None
        self._files = TextFiles(SECRET_BYTES_MAX)
        self._lock = threading.Lock()
        self._found: OrderedDict[tuple[str, str, str | None], tuple[float, Merchant]] = OrderedDict()
        self._build_auth_header()

    def lookup(self, provider: str, account: str, tenant: str | None = None) -> Merchant:
        """
        :raises DirectoryUnavailable: no answer, or none that can be used
        :raises DirectoryRefused: it doesn't let us in, or the token file can't be used
        :raises DownstreamHeld: it isn't to be asked now
        """
        key = (provider, account, tenant)
        remembered = self._find_remembered(key)
        if remembered is not None:
            log.info("the directory answered that a moment ago")
            return remembered
        log.info("asks the merchant directory %s", self._url)
        merchant = _require_open(self._ask_service(provider, account, tenant), provider, account, tenant)
        self._remember_merchant(key, merchant)
        return merchant

    def _ask_service(self, provider: str, account: str, tenant: str | None) -> Merchant | None:
        asked = {"provider": provider, "account": account} | ({} if tenant is None else {"tenant": tenant})
        try:
            headers = self._build_auth_header()
        except SettingError as wrong:
            raise DirectoryRefused(self._url, wrong.problem) from wrong
        with calling(DOWNSTREAM):
            status, body = self._get_answer(asked, headers)
            merchant = self._parse_answer(body) if status == FOUND else None
        if status in REFUSED:
            raise DirectoryRefused(self._url, f"it answers {status}")
        return merchant

    def _build_auth_header(self) -> dict[str, str]:
        return (
            {}
            if self._token_file is None
            else {"authorization": f"Bearer {_read_token(self._files, self._token_file)}"}
        )

    def _get_answer(self, asked: dict[str, str], headers: dict[str, str]) -> tuple[int, bytes]:
        try:
            with self._client.stream("GET", self._url, params=asked, headers=headers) as response:
                if response.status_code not in (FOUND, UNKNOWN, *REFUSED):
                    wait_s = retry_after_s(response.headers.get("retry-after"), self._clock.now())
                    raise DirectoryUnavailable(self._url, f"it answers {response.status_code}", wait_s)
                return response.status_code, self._read_body(response) if response.status_code == FOUND else b""
        except (httpx2.HTTPError, httpx2.InvalidURL) as failed:
            raise DirectoryUnavailable(self._url, str(failed) or type(failed).__name__) from failed

    def _read_body(self, response: httpx2.Response) -> bytes:
        timeout_s = self._client.timeout.read or TIMEOUT_S
        body, in_time = b"", Deadline(self._clock, timeout_s)
        for part in response.iter_bytes():
            body += part
            if in_time.has_passed:
                raise DirectoryUnavailable(self._url, f"its answer takes longer than {timeout_s:g} s")
            if len(body) > ANSWER_BYTES_MAX:
                raise DirectoryUnavailable(self._url, f"its answer has more than {ANSWER_BYTES_MAX} bytes")
        return body

    def _parse_answer(self, body: bytes) -> Merchant:
        try:
            answer = orjson.loads(body)
        except ValueError as wrong:
            raise DirectoryUnavailable(self._url, "its answer isn't JSON") from wrong
        match answer:
            case {"account": str() as internal} if internal and isinstance(answer.get("closed", False), bool):
                return Merchant(internal, answer.get("closed", False))
        raise DirectoryUnavailable(self._url, 'its answer isn\'t {"account": "name", "closed": false}')

    def _find_remembered(self, key: tuple[str, str, str | None]) -> Merchant | None:
        with self._lock:
            until, merchant = self._found.get(key, (0.0, None))
            if merchant is None or self._clock.monotonic_s() >= until:
                return None
            self._found.move_to_end(key)
            return merchant

    def _remember_merchant(self, key: tuple[str, str, str | None], merchant: Merchant) -> None:
        with self._lock:
            self._found[key] = (self._clock.monotonic_s() + CACHE_S, merchant)
            self._found.move_to_end(key)
            while len(self._found) > CACHE_MAX:
                self._found.popitem(last=False)


def open_client(timeout_s: float = TIMEOUT_S) -> httpx2.Client:
    """Opens a client that waits ``timeout_s`` to connect, to send and for each read.

    It follows no redirects and ignores proxies of the environment.
    """
    headers = {"accept": "application/json"}
    limits = httpx2.Limits(max_connections=CONNECTIONS_MAX, max_keepalive_connections=CONNECTIONS_MAX)
    timeout = httpx2.Timeout(timeout_s)
    return httpx2.Client(timeout=timeout, headers=headers, limits=limits, follow_redirects=False, trust_env=False)


def _read_token(files: TextFiles, path: Path) -> str:
    try:
        token = files.text(path).strip()
    except (OSError, ValueError) as unreadable:
        problem = f"{path} can't be read: {problem_of(unreadable)}"
        raise SettingError("ledger.merchants_token_file", problem) from unreadable
    if not token or not (token.isascii() and token.isprintable()):
        raise SettingError("ledger.merchants_token_file", f"{path} holds no token: write it there, as one line")
    return token
