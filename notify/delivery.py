"""Sends one request to one subscriber, within limits: time, size, and the addresses that were checked.

An event loop on a thread of its own does the work of every caller: there a request ends when its time is over, whatever
it waits for, and one subscriber's connections are kept for its next request. The name is resolved here, all of its
addresses are checked, and the connection goes to a checked one: the URL carries the address, the Host header and TLS
the name. So no second look-up can lead elsewhere.
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
import logging
import operator
import ssl
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import Any, TypeVar

import httpx2

from notify.addresses import ADDRESSES_MAX, Resolver, UrlParts, find_refusal, in_url, is_literal
from notify.errors import AddressRefused, Unreachable
from notify.settings import Network

log = logging.getLogger(__name__)

T = TypeVar("T")

BODY_BYTES_MAX = 4_096
"""Read of an answer. Its status decides; the rest tells a person why it was refused."""
BODY_WAIT_S = 1.0
"""Spent on an answer's body at most: a status that has come is not lost to a body that doesn't."""
KEEP_ALIVE_S = 4.0
"""Idle connections; servers close theirs after 5 s and more, and a request must not meet that."""
CONNECTIONS_KEPT_MAX = 8
ADDRESSES_KEPT_S = 30.0
ADDRESSES_TRIED_MAX = 3
"""Most addresses of one name that one request tries, while connections fail."""
CLOSE_S = 5.0


@dataclass(frozen=True, slots=True)
class RequestTarget:
    """A subscriber as requests see it. Equal targets share connections: those that trust the same authorities by one
    context ``tls``. Times in seconds.
    """

    name: str
    place: UrlParts
    allowed: tuple[Network, ...]
    tls: ssl.SSLContext
    connect_timeout_s: float
    read_timeout_s: float
    timeout_s: float


@dataclass(frozen=True, slots=True)
class DeliveryAnswer:
    """The answer of a subscriber. ``said``: the beginning of the body as text; ``retry_after``: the header as it
    came."""

    status: int
    retry_after: str | None
    said: str


class _SubscriberClient:
    """The client of one subscriber and its checked addresses; lives on the loop."""

    def __init__(self, target: RequestTarget) -> None:
        no_cookies = CookieJar(policy=DefaultCookiePolicy(allowed_domains=[]))
        limits = httpx2.Limits(
            max_connections=None, max_keepalive_connections=CONNECTIONS_KEPT_MAX, keepalive_expiry=KEEP_ALIVE_S
        )
        # No proxy and no .netrc of the environment: a proxy would look the name up a second time.
        self.client = httpx2.AsyncClient(
            verify=target.tls, cookies=no_cookies, limits=limits, trust_env=False, follow_redirects=False
        )
        self.target = target
        self.addresses: list[str] = []
        self.good_until = 0.0
        self.lookup: asyncio.Task[list[str]] | None = None


class Deliveries:
    """Posts requests for any thread. The caller closes it."""

    def __init__(self, resolver: Resolver) -> None:
        self._resolver = resolver
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._lines: dict[str, _SubscriberClient] = {}

    def post(self, target: RequestTarget, headers: Mapping[str, str], body: bytes) -> DeliveryAnswer:
        """Posts once and waits for the answer, whatever its status.

        :raises AddressRefused: the name resolves to an address that may not be reached; nothing was sent
        :raises Unreachable: no answer within the times
        """
        work = self._post(target, headers, body)
        return asyncio.run_coroutine_threadsafe(work, self._start_loop()).result()

    def close(self) -> None:
        with self._lock:
            loop, thread, self._loop, self._thread = self._loop, self._thread, None, None
        if loop is None or thread is None:
            return
        asyncio.run_coroutine_threadsafe(self._close_all(), loop).result(CLOSE_S)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(CLOSE_S)
        loop.close()

    def _start_loop(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(target=self._loop.run_forever, name="notify", daemon=True)
                self._thread.start()
            return self._loop

    async def _close_all(self) -> None:
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        for line in self._lines.values():
            await line.client.aclose()
        self._lines.clear()

    async def _post(self, target: RequestTarget, headers: Mapping[str, str], body: bytes) -> DeliveryAnswer:
        line = self._find_client(target)
        ends = asyncio.get_running_loop().time() + target.timeout_s
        try:
            async with asyncio.timeout_at(ends):
                response = await self._answer(line, headers, body)
        except TimeoutError:
            raise Unreachable(target.name, f"no answer within {target.timeout_s:g} s") from None
        beginning = await _read_beginning(response, min(ends, asyncio.get_running_loop().time() + BODY_WAIT_S))
        return DeliveryAnswer(response.status_code, response.headers.get("retry-after"), beginning)

    def _find_client(self, target: RequestTarget) -> _SubscriberClient:
        line = self._lines.get(target.name)
        if line is None or line.target != target:
            if line is not None:
                # Requests under way on the old one end by themselves first.
                asyncio.get_running_loop().call_later(target.timeout_s, _close_later, line.client)
            line = self._lines[target.name] = _SubscriberClient(target)
        return line

    async def _answer(self, line: _SubscriberClient, headers: Mapping[str, str], body: bytes) -> httpx2.Response:
        failure: Unreachable | None = None
        for address in (await self._addresses(line))[:ADDRESSES_TRIED_MAX]:
            try:
                response = await _send_request(line, address, headers, body)
            except (httpx2.ConnectError, httpx2.ConnectTimeout) as refused:
                failure = Unreachable(line.target.name, f"no connection to {address}: {_describe_error(refused)}")
                continue
            except httpx2.HTTPError as broken:
                raise Unreachable(line.target.name, _describe_error(broken)) from broken
            line.addresses.sort(key=partial(operator.ne, address))
            return response
        line.good_until = 0.0
        raise failure or Unreachable(line.target.name, "its name has no address")

    async def _addresses(self, line: _SubscriberClient) -> list[str]:
        if asyncio.get_running_loop().time() >= line.good_until:
            if line.lookup is None or line.lookup.done():
                line.lookup = asyncio.create_task(self._look_up(line))
                line.lookup.add_done_callback(_read_error)
            try:
                await asyncio.shield(line.lookup)
            except (AddressRefused, Unreachable) as failed:
                # A copy for each: an error that is raised in many places gathers all their traces.
                raise copy.copy(failed) from None
        return list(line.addresses)

    async def _look_up(self, line: _SubscriberClient) -> list[str]:
        target, place = line.target, line.target.place
        if is_literal(place.host):
            addresses: Sequence[str] = [place.host]
        else:
            try:
                addresses = await _in_thread(partial(self._resolver.addresses, place.host, place.port))
            except (OSError, UnicodeError) as unknown:
                raise Unreachable(target.name, f"{place.host} can't be resolved: {unknown}") from unknown
        for address in addresses[:ADDRESSES_MAX]:
            problem = find_refusal(address, target.allowed)
            if problem is not None:
                raise AddressRefused(target.name, place.host, problem)
        line.addresses = list(addresses[:ADDRESSES_MAX])
        line.good_until = asyncio.get_running_loop().time() + ADDRESSES_KEPT_S
        return line.addresses


async def _send_request(
    line: _SubscriberClient, address: str, headers: Mapping[str, str], body: bytes
) -> httpx2.Response:
    target, place = line.target, line.target.place
    extensions: dict[str, Any] = {} if is_literal(place.host) else {"sni_hostname": place.host}
    request = line.client.build_request(
        "POST",
        place.url.copy_with(netloc=f"{in_url(address)}:{place.port}".encode("ascii")),
        content=body,
        headers={**headers, "host": place.netloc},
        timeout=httpx2.Timeout(target.read_timeout_s, connect=target.connect_timeout_s),
        extensions=extensions,
    )
    return await line.client.send(request, stream=True)


async def _read_beginning(response: httpx2.Response, ends: float) -> str:
    read = bytearray()
    try:
        async with asyncio.timeout_at(ends):
            async for chunk in response.aiter_raw():
                read += chunk
                if len(read) > BODY_BYTES_MAX:
                    break
    except (TimeoutError, httpx2.HTTPError) as cut:
        log.info("an answer's body was given up: %s", _describe_error(cut))
    finally:
        await response.aclose()
    return bytes(read[:BODY_BYTES_MAX]).decode("utf-8", "replace")


async def _in_thread(call: Callable[[], T]) -> T:
    """Waits for a blocking call on a daemon thread: one that hangs holds up no exit, and no other subscriber's."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

    def run() -> None:
        try:
            result = call()
        except Exception as error:
            _settle_future(loop, done, error, None)
        else:
            _settle_future(loop, done, None, result)

    threading.Thread(target=run, name="notify-resolve", daemon=True).start()
    return await done


def _settle_future(
    loop: asyncio.AbstractEventLoop, done: asyncio.Future[T], error: Exception | None, result: T | None
) -> None:
    def settle() -> None:
        if done.done():
            return
        if error is not None:
            done.set_exception(error)
        else:
            done.set_result(result)  # type: ignore[arg-type]

    with contextlib.suppress(RuntimeError):  # the loop was closed meanwhile: there is no waiter
        loop.call_soon_threadsafe(settle)


def _read_error(lookup: asyncio.Task[list[str]]) -> None:
    if not lookup.cancelled():
        lookup.exception()


def _close_later(client: httpx2.AsyncClient) -> None:
    _closing.add(task := asyncio.ensure_future(client.aclose()))
    task.add_done_callback(_closing.discard)


_closing: set[asyncio.Future[None]] = set()


def _describe_error(error: BaseException) -> str:
    return str(error) or type(error).__name__
