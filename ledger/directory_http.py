"""The merchant directory as a service: the same port as the file's, over HTTP.

``GET {url}?provider=stripe&account=acct_1[&tenant=shop-a]`` answers 200 with
``{"account": "merchant-1", "closed": false}`` (``closed`` may be left out), or 404 when it doesn't know the account.
Every other answer, and none, is the directory's failure.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from pathlib import Path

import httpx2
import orjson

from core.clock import Clock, Deadline
from core.decision import ErrorKind
from core.downstream import calling
from core.errors import PayhookError, SettingError
from core.retry_after import retry_after_s
from core.routing import of_tenant
from ledger.directory import Merchant, MerchantClosed, MerchantUnknown
from ledger.settings import LedgerSettings

DOWNSTREAM = "merchants"
"""Its name among a stream's downstreams."""

ANSWER_BYTES_MAX = 16_384
CONNECTIONS_MAX = 64
SECRET_BYTES_MAX = 8_192
FOUND, UNKNOWN = 200, 404
REFUSED = frozenset({401, 403})


class DirectoryUnavailable(PayhookError):
    """The directory gave no answer that can be used; the events that need it wait. Times in seconds."""

    kind = ErrorKind.SNBE

    def __init__(self, url: str, problem: str, retry_after_s: float | None = None) -> None:
        self.url = url
        self.problem = problem
        self.retry_after_s = retry_after_s
        super().__init__(
            f"the merchant directory {url} gave no answer: {problem}. See whether it is up; nothing is lost"
        )

    def __reduce__(self) -> tuple[type[DirectoryUnavailable], tuple[str, str, float | None]]:
        return DirectoryUnavailable, (self.url, self.problem, self.retry_after_s)


class DirectoryRefused(PayhookError):
    """The directory doesn't let us in: every event would fail, so the stream waits."""

    kind = ErrorKind.SBE

    def __init__(self, url: str, status: int) -> None:
        self.url = url
        self.status = status
        super().__init__(
            f"the merchant directory {url} answers {status}: put a valid token into ledger.merchants_token_file"
        )

    def __reduce__(self) -> tuple[type[DirectoryRefused], tuple[str, int]]:
        return DirectoryRefused, (self.url, self.status)


class HttpDirectory:
    """Asks the service, and remembers the merchants that it found for a while (``merchants_cache_s``, ``…_max``).

    What isn't known yet and who is closed isn't remembered: a person who mends it needs nobody's patience.
    Thread-safe. ``client`` carries timeouts and the token.
    """

    def __init__(self, settings: LedgerSettings, client: httpx2.Client, clock: Clock) -> None:
        self._url = settings.merchants_url
        self._timeout_s = settings.merchants_timeout_s
        self._cache_s = settings.merchants_cache_s
        self._cache_max = settings.merchants_cache_max
        self._client = client
        self._clock = clock
        self._lock = threading.Lock()
        self._found: OrderedDict[tuple[str, str, str | None], tuple[float, Merchant]] = OrderedDict()

    def lookup(self, provider: str, account: str, tenant: str | None = None) -> Merchant:
        """As `MerchantDirectory.lookup`.

        :raises DirectoryUnavailable: no answer, or none that can be used
        :raises DirectoryRefused: it doesn't let us in
        :raises DownstreamHeld: it isn't to be asked now
        """
        key = (provider, account, tenant)
        known = self._remembered(key)
        if known is not None:
            return known
        merchant = self._ask(provider, account, tenant)
        if merchant is None:
            raise MerchantUnknown(of_tenant(tenant, provider), account)
        if merchant.closed:
            raise MerchantClosed(provider, account, merchant.internal_account)
        self._remember(key, merchant)
        return merchant

    def _ask(self, provider: str, account: str, tenant: str | None) -> Merchant | None:
        """None for an account that the directory doesn't know."""
        asked = {"provider": provider, "account": account} | ({} if tenant is None else {"tenant": tenant})
        with calling(DOWNSTREAM):
            status, body = self._get(asked)
            merchant = self._read(body) if status == FOUND else None
        if status in REFUSED:
            raise DirectoryRefused(self._url, status)
        return merchant

    def _get(self, asked: dict[str, str]) -> tuple[int, bytes]:
        try:
            with self._client.stream("GET", self._url, params=asked) as response:
                if response.status_code not in (FOUND, UNKNOWN, *REFUSED):
                    wait_s = retry_after_s(response.headers.get("retry-after"), self._clock.now())
                    raise DirectoryUnavailable(self._url, f"it answers {response.status_code}", wait_s)
                return response.status_code, self._body(response) if response.status_code == FOUND else b""
        except (httpx2.HTTPError, httpx2.InvalidURL) as failed:
            raise DirectoryUnavailable(self._url, str(failed) or type(failed).__name__) from failed

    def _body(self, response: httpx2.Response) -> bytes:
        """The answer's body, as long as it is short and comes in time as a whole."""
        body, in_time = b"", Deadline(self._clock, self._timeout_s)
        for part in response.iter_bytes():
            body += part
            if in_time.passed:
                raise DirectoryUnavailable(self._url, f"its answer takes longer than {self._timeout_s:g} s")
            if len(body) > ANSWER_BYTES_MAX:
                raise DirectoryUnavailable(self._url, f"its answer has more than {ANSWER_BYTES_MAX} bytes")
        return body

    def _read(self, body: bytes) -> Merchant:
        try:
            answer = orjson.loads(body)
        except ValueError as wrong:
            raise DirectoryUnavailable(self._url, "its answer isn't JSON") from wrong
        match answer:
            case {"account": str() as internal} if internal and isinstance(answer.get("closed", False), bool):
                return Merchant(internal, answer.get("closed", False))
        raise DirectoryUnavailable(self._url, 'its answer isn\'t {"account": "name", "closed": false}')

    def _remembered(self, key: tuple[str, str, str | None]) -> Merchant | None:
        with self._lock:
            until, merchant = self._found.get(key, (0.0, None))
            if merchant is None or self._clock.monotonic() >= until:
                return None
            self._found.move_to_end(key)
            return merchant

    def _remember(self, key: tuple[str, str, str | None], merchant: Merchant) -> None:
        with self._lock:
            self._found[key] = (self._clock.monotonic() + self._cache_s, merchant)
            self._found.move_to_end(key)
            while len(self._found) > self._cache_max:
                self._found.popitem(last=False)


def open_client(settings: LedgerSettings) -> httpx2.Client:
    """A client with the settings' token that waits so long, and no longer, to connect, to send and for each read.

    Redirects aren't followed, proxies of the environment aren't used.

    :raises SettingError: the token file can't be read
    """
    headers = {"accept": "application/json"}
    if settings.merchants_token_file:
        headers["authorization"] = f"Bearer {_token(Path(settings.merchants_token_file))}"
    limits = httpx2.Limits(max_connections=CONNECTIONS_MAX, max_keepalive_connections=CONNECTIONS_MAX)
    timeout = httpx2.Timeout(settings.merchants_timeout_s)
    return httpx2.Client(timeout=timeout, headers=headers, limits=limits, follow_redirects=False, trust_env=False)


def _token(path: Path) -> str:
    try:
        token = path.read_bytes()[:SECRET_BYTES_MAX].decode("ascii").strip()
    except (OSError, ValueError) as unreadable:
        raise SettingError("ledger.merchants_token_file", f"{path} can't be read: {unreadable}") from unreadable
    if not token or not token.isprintable():
        raise SettingError("ledger.merchants_token_file", f"{path} holds no token: one line of text is wanted")
    return token
