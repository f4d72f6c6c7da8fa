"""Providers' own lists of events, on loopback: by each provider's own paging, with troubles that a test sets.

Made after the providers' public references, which `providers/*.py` name beside what they ask.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from core.clock import from_rfc3339

Query = dict[str, str]


@dataclass(frozen=True, slots=True)
class ListedEvent:
    """An event of a list; ``visible_at``: until then the list lags behind and doesn't have it."""

    event_id: str
    created: datetime
    body: bytes
    visible_at: datetime | None = None


@dataclass
class Lists:
    """``page_max``: events on a page, whatever is asked for. ``statuses``: of the next answers, before they are good.
    ``refuses``: every credential. ``now``: for what lags.
    """

    events: dict[str, list[ListedEvent]] = field(default_factory=dict)
    page_max: int = 500
    statuses: list[int] = field(default_factory=list)
    refuses: bool = False
    retry_after_s: int | None = None
    asked: list[str] = field(default_factory=list)
    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    resources: dict[str, str] = field(default_factory=dict)
    """What else is answered, by path."""
    base: str = ""

    @property
    def api_urls(self) -> dict[str, str]:
        """For the setting `providers.api_urls`."""
        return dict.fromkeys(
            (
                "https://api.stripe.com",
                "https://api.gocardless.com",
                "https://api.paddle.com",
                "https://connect.squareup.com",
                "https://api-m.paypal.com",
            ),
            self.base,
        )

    def add(self, provider: str, *events: ListedEvent) -> None:
        self.events.setdefault(provider, []).extend(events)

    def newest_first(self, provider: str, since: datetime | None, until: datetime | None) -> list[ListedEvent]:
        now = self.now()
        there = [
            event
            for event in self.events.get(provider, [])
            if (since is None or event.created >= since)
            and (until is None or event.created < until)
            and (event.visible_at is None or event.visible_at <= now)
        ]
        return sorted(there, key=lambda event: event.created)[::-1]

    def next_status(self) -> int:
        """The status of the next answer; 0: the connection is dropped."""
        return self.statuses.pop(0) if self.statuses else 200

    def page(self, events: list[ListedEvent], after: str | None, size: int) -> tuple[list[ListedEvent], bool]:
        """The events behind the one that is named, and whether there are more."""
        ids = [event.event_id for event in events]
        start = ids.index(after) + 1 if after in ids else 0
        end = start + min(size, self.page_max)
        return events[start:end], end < len(events)


def _joined(events: list[ListedEvent]) -> str:
    return "[" + ",".join(event.body.decode() for event in events) + "]"


def _moment(text: str | None) -> datetime | None:
    if text is None:
        return None
    return datetime.fromtimestamp(int(text), UTC) if text.isdigit() else from_rfc3339(text)


def _stripe(lists: Lists, query: Query, _: Any) -> str:
    there = lists.newest_first("stripe", _moment(query.get("created[gte]")), _moment(query.get("created[lt]")))
    page, more = lists.page(there, query.get("starting_after"), int(query["limit"]))
    return f'{{"object":"list","url":"/v1/events","has_more":{json.dumps(more)},"data":{_joined(page)}}}'


def _gocardless(lists: Lists, query: Query, _: Any) -> str:
    since, until = _moment(query.get("created_at[gte]")), _moment(query.get("created_at[lt]"))
    page, more = lists.page(lists.newest_first("gocardless", since, until), query.get("after"), int(query["limit"]))
    cursors = {"before": None, "after": page[-1].event_id if more else None}
    return f'{{"events":{_joined(page)},"meta":{{"limit":{len(page)},"cursors":{json.dumps(cursors)}}}}}'


def _paddle(lists: Lists, query: Query, _: Any) -> str:
    page, more = lists.page(lists.newest_first("paddle", None, None), query.get("after"), int(query["per_page"]))
    return f'{{"data":{_joined(page)},"meta":{{"pagination":{{"has_more":{json.dumps(more)}}}}}}}'


def _square(lists: Lists, _: Query, wanted: Any) -> str:
    created = wanted["query"]["filter"]["created_at"]
    there = lists.newest_first("square", from_rfc3339(created["start_at"]), from_rfc3339(created["end_at"]))[::-1]
    page, more = lists.page(there, wanted.get("cursor"), wanted["limit"])
    cursor = f',"cursor":{json.dumps(page[-1].event_id)}' if more else ""
    return f'{{"events":{_joined(page)}{cursor}}}'


def _paypal(lists: Lists, query: Query, _: Any) -> str:
    there = lists.newest_first("paypal", _moment(query.get("start_time")), _moment(query.get("end_time")))
    page, more = lists.page(there, query.get("next_page_token"), int(query["page_size"]))
    links = []
    if more:
        times = f"start_time={query['start_time']}&end_time={query['end_time']}&page_size={query['page_size']}"
        token = f"next_page_token={page[-1].event_id}"
        links = [{"rel": "next", "href": f"https://api-m.paypal.com/v1/notifications/webhooks-events?{times}&{token}"}]
    return f'{{"events":{_joined(page)},"count":{len(page)},"links":{json.dumps(links)}}}'


_PATHS: dict[tuple[str, str], Callable[[Lists, Query, Any], str]] = {
    ("GET", "/v1/events"): _stripe,
    ("POST", "/v2/events"): _square,
    ("GET", "/v1/notifications/webhooks-events"): _paypal,
}


def _answer(lists: Lists, method: str, path: str, query: Query, content: bytes) -> str | None:
    if (method, path) == ("GET", "/events"):
        return (_paddle if "per_page" in query else _gocardless)(lists, query, None)
    found = _PATHS.get((method, path))
    if path in lists.resources:
        return lists.resources[path]
    return None if found is None else found(lists, query, json.loads(content) if content else None)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    lists: Lists

    def do_GET(self) -> None:
        self._serve("GET")

    def do_POST(self) -> None:
        self._serve("POST")

    def log_message(self, *_: object) -> None:
        """Nothing is logged."""

    def _serve(self, method: str) -> None:
        lists, parts = self.lists, urlsplit(self.path)
        content = self.rfile.read(int(self.headers.get("content-length") or 0))
        lists.asked.append(self.path)
        if parts.path == "/v1/oauth2/token":
            return self._send(200, '{"access_token":"A21AA","expires_in":32400}')
        if lists.refuses:
            return self._send(401, "{}")
        if (status := lists.next_status()) != 200:
            return self._send(status, "{}") if status else self._drop()
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        answer = _answer(lists, method, parts.path, query, content)
        return self._send(404, "{}") if answer is None else self._send(200, answer)

    def _drop(self) -> None:
        """Ends the connection in the middle of an answer."""
        self.send_response(200)
        self.send_header("content-length", "1000")
        self.end_headers()
        self.wfile.write(b'{"object":')
        self.close_connection = True

    def _send(self, status: int, text: str) -> None:
        body = text.encode()
        self.send_response(status)
        if status == 429 and self.lists.retry_after_s is not None:
            self.send_header("retry-after", str(self.lists.retry_after_s))
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


class _ListsServer(ThreadingHTTPServer):
    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that is gone is none."""


@asynccontextmanager
async def serve_on_loop(lists: Lists) -> AsyncIterator[Lists]:
    """Serves the lists on the loop of those who ask: where both share a core, no thread waits for another."""
    open_writers: set[asyncio.StreamWriter] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        open_writers.add(writer)
        with suppress(asyncio.IncompleteReadError, asyncio.CancelledError, ConnectionError):
            while _write_answer(lists, await reader.readuntil(b"\r\n\r\n"), writer):
                await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    lists.base = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield lists
    finally:
        server.close()
        for writer in open_writers:
            writer.close()


def _write_answer(lists: Lists, head: bytes, writer: asyncio.StreamWriter) -> bool:
    """Answers a GET; returns whether the connection goes on."""
    method, path, _ = head.split(b" ", 2)
    status, parts = lists.next_status(), urlsplit(path.decode())
    query = {name: values[0] for name, values in parse_qs(parts.query).items()}
    answer = _answer(lists, method.decode(), parts.path, query, b"") if status == 200 else None
    body = (answer or "{}").encode()
    pause = f"retry-after: {lists.retry_after_s}\r\n" if status == 429 and lists.retry_after_s is not None else ""
    about = f"{pause}content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    if status == 0:
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n{")
        return False
    writer.write(f"HTTP/1.1 {404 if status == 200 and answer is None else status} -\r\n{about}".encode() + body)
    return True


@contextmanager
def serve_lists(lists: Lists) -> Iterator[Lists]:
    """Serves the lists on a free port of the loopback address."""
    handler = type("Handler", (_Handler,), {"lists": lists})
    server = _ListsServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    lists.base = f"http://127.0.0.1:{server.server_port}"
    try:
        yield lists
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
