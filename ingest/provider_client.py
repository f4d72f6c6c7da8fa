"""Asks a provider one question over HTTP: with credentials, tokens for them, and a limit on the answer's size.

When it may be asked, and how often, is `ingest.fetch`'s. What it answered with 404 is remembered here, and when to ask
again.
"""

from __future__ import annotations

import base64
from collections import OrderedDict
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import NamedTuple

import httpx2
from pydantic import BaseModel, Field, ValidationError

from core.clock import Clock, retry_after_s
from core.errors import PayhookError
from providers.port import Fetched, Wanted

REFUSED = frozenset({401, 403})
GONE = frozenset({404, 410})
TOO_MANY = 429
TOKEN_GIVEN = 200
CLIENT_REFUSED = frozenset({400, 401, 403})
TOKEN_MARGIN_S = 60
SILENT_S_MAX = 60.0
"""How long a host may say nothing, for a caller that sets no limit; `ingest.fetch` gives up much sooner."""


class FetchFailed(PayhookError):
    """The provider didn't say what was wanted, or wasn't asked; the webhook's redelivery asks again.

    ``url`` is without its query and without credentials. ``retry_after_s``: when it makes sense to ask again, if that
    is known.
    """

    def __init__(self, url: str, problem: str, retry_after_s: float | None = None) -> None:
        self.url = url
        self.problem = problem
        self.retry_after_s = retry_after_s
        super().__init__(f"{url}: {problem}")


class NotThereYet(FetchFailed):
    def __init__(self, url: str, retry_after_s: float | None = None) -> None:
        super().__init__(url, "the provider doesn't know it (yet)", retry_after_s)


class CredentialsRefused(PayhookError):
    """The provider refuses our credentials, so what it holds isn't known: the operator must set others.

    ``refused``: which of them, counted from 0. ``url`` is without its query and without credentials.
    """

    def __init__(self, url: str, refused: tuple[int, ...]) -> None:
        self.url = url
        self.refused = refused
        which = ", ".join(str(index + 1) for index in refused)
        super().__init__(f"{url}: the provider refuses credential {which}; replace it or take it out")


class _Answer(NamedTuple):
    status: int
    body: bytes
    retry_after_s: float | None = None


class HostFails(Exception):
    """The host, not just this request, is in trouble: what a breaker counts.

    ``retry_after_s``: for how long it asks to be left alone.
    """

    def __init__(self, problem: str, retry_after_s: float | None = None) -> None:
        self.retry_after_s = retry_after_s
        super().__init__(problem)


@dataclass(frozen=True, slots=True)
class _Token:
    text: str
    ends_at: float


class _TokenAnswer(BaseModel):
    """RFC 6749, section 5.1."""

    access_token: str = Field(pattern=r"^[\x21-\x7e]{1,4096}$")
    expires_in: int = Field(ge=1)


def open_client() -> httpx2.AsyncClient:
    """Opens a client that keeps nothing that hosts send, no cookies either. The caller closes it."""
    no_cookies = CookieJar(policy=DefaultCookiePolicy(allowed_domains=[]))
    headers = {"user-agent": "payhook", "accept-encoding": "identity"}
    return httpx2.AsyncClient(headers=headers, cookies=no_cookies, follow_redirects=False, timeout=SILENT_S_MAX)


class ProviderClient:
    """Asks over a client that the caller opened, and keeps the tokens that it is given. The caller limits the time."""

    def __init__(self, client: httpx2.AsyncClient, clock: Clock, answer_bytes_max: int) -> None:
        self._client = client
        self._clock = clock
        self._answer_bytes_max = answer_bytes_max
        self._tokens: dict[tuple[str, str], _Token] = {}

    async def ask(self, url: httpx2.URL, wanted: Wanted) -> Fetched:
        """Asks with each credential in its turn, until the provider answers one.

        :raises HostFails: the host is in trouble, not just this request
        :raises FetchFailed, CredentialsRefused: see there
        """
        refused: list[int] = []
        gone: Fetched | None = None
        for index, bearer in enumerate(wanted.bearers or ("",)):
            answer = await self._get(_add_query(url, wanted, index), bearer, wanted)
            if 200 <= answer.status <= 299:
                return Fetched(answer.status, answer.body, index)
            if bearer and answer.status in REFUSED:
                refused.append(index)
            elif answer.status in GONE:
                gone = gone or Fetched(answer.status, answer.body, index)
            else:
                raise _make_status_error(url, answer)
        if gone is None or refused:
            raise CredentialsRefused(strip_url(url), tuple(refused))
        return gone

    async def _get(self, url: httpx2.URL, bearer: str, wanted: Wanted) -> _Answer:
        headers, token_url = dict(wanted.headers), wanted.token_url
        method, content = ("POST", wanted.content) if wanted.content else ("GET", b"")
        if content:
            headers["content-type"] = "application/json"
        if token_url is None:
            authorization = {"authorization": f"Bearer {bearer}"} if bearer else {}
            return await self._send(method, url, headers | authorization, content)
        for _ in range(2):
            token = await self._token(token_url, bearer)
            if token is None:
                break
            answer = await self._send(method, url, headers | {"authorization": f"Bearer {token}"}, content)
            if answer.status not in REFUSED:
                return answer
            # It may have ended before its time.
            self._tokens.pop((token_url, bearer), None)
        return _Answer(min(REFUSED), b"")

    async def _token(self, token_url: str, client: str) -> str | None:
        known = self._tokens.get((token_url, client))
        if known is not None and self._clock.monotonic_s() < known.ends_at:
            return known.text
        url, asked_at = httpx2.URL(token_url), self._clock.monotonic_s()
        basic = base64.b64encode(client.encode()).decode()
        headers = {"authorization": f"Basic {basic}", "content-type": "application/x-www-form-urlencoded"}
        answer = await self._send("POST", url, headers, b"grant_type=client_credentials")
        if answer.status in CLIENT_REFUSED:
            return None
        if answer.status != TOKEN_GIVEN:
            raise _make_status_error(url, answer)
        try:
            given = _TokenAnswer.model_validate_json(answer.body)
        except ValidationError:
            raise FetchFailed(strip_url(url), "what it answers holds no access_token with expires_in") from None
        self._tokens[token_url, client] = _Token(given.access_token, asked_at + given.expires_in - TOKEN_MARGIN_S)
        return given.access_token

    async def _send(self, method: str, url: httpx2.URL, headers: Mapping[str, str], body: bytes = b"") -> _Answer:
        try:
            async with self._client.stream(
                method, url, headers=headers, content=body or None, follow_redirects=False
            ) as response:
                broken = response.status_code >= 500
                body = b"" if broken else await self._read(url, response)
                pause_s = retry_after_s(response.headers.get("retry-after"), self._clock.now())
                return _Answer(response.status_code, body, pause_s)
        except httpx2.TransportError as failed:
            raise HostFails(type(failed).__name__) from None

    async def _read(self, url: httpx2.URL, response: httpx2.Response) -> bytes:
        """Returns the body, unless it is larger than allowed or packed (what unpacks may be of any size)."""
        if response.headers.get("content-encoding", "identity") != "identity":
            raise FetchFailed(strip_url(url), "the answer is compressed, which wasn't asked for")
        size_max, body = self._answer_bytes_max, bytearray()
        async for part in response.aiter_raw():
            body += part
            if len(body) > size_max:
                raise FetchFailed(strip_url(url), f"the answer is larger than {size_max} bytes")
        return bytes(body)


def _add_query(url: httpx2.URL, wanted: Wanted, index: int) -> httpx2.URL:
    query = wanted.queries[index] if wanted.queries else ""
    return httpx2.URL(f"{url}{'&' if url.query else '?'}{query}") if query else url


def _make_status_error(url: httpx2.URL, answer: _Answer) -> Exception:
    """A host that is overloaded or broken fails for everyone; another status is about this request alone."""
    problem, is_busy = f"answered {answer.status}", answer.status == TOO_MANY
    if answer.status >= 500 or is_busy:
        return HostFails(problem, answer.retry_after_s)
    return FetchFailed(strip_url(url), problem)


def strip_url(url: httpx2.URL) -> str:
    return str(url.copy_with(userinfo=b"", query=None, fragment=None))


AGAIN_AFTER_S = (1.0, 5.0, 30.0)
"""After each 404 but the last: a webhook may be some seconds ahead of the API."""


class Absences:
    """The 404s of each question, over all deliveries that ask it; of more than ``most`` questions the oldest go."""

    def __init__(self, clock: Clock, most: int) -> None:
        self._clock = clock
        self._most = most
        self._known: OrderedDict[Hashable, tuple[int, float]] = OrderedDict()
        """How often there was a 404, and when last."""

    def __len__(self) -> int:
        return len(self._known)

    def wait_s(self, question: Hashable) -> float:
        times, asked_at = self._known.get(question, (0, 0.0))
        if not 1 <= times <= len(AGAIN_AFTER_S):
            return 0.0
        return max(0.0, asked_at + AGAIN_AFTER_S[times - 1] - self._clock.monotonic_s())

    def is_given_up(self, question: Hashable) -> bool:
        return self._known.get(question, (0, 0.0))[0] > len(AGAIN_AFTER_S)

    def record_absence(self, question: Hashable) -> None:
        """Counts a 404. One that comes before the question is due again is the same try, asked by two."""
        if self.wait_s(question) > 0:
            return
        times, _ = self._known.get(question, (0, 0.0))
        self._known[question] = min(times, len(AGAIN_AFTER_S)) + 1, self._clock.monotonic_s()
        self._known.move_to_end(question)
        while len(self._known) > self._most:
            self._known.popitem(last=False)

    def forget_question(self, question: Hashable) -> None:
        self._known.pop(question, None)
