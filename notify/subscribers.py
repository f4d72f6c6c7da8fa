"""Reads the subscribers: a TOML file that is read again whenever it changes.

::

    [shop]                                       # its name: a-z, 0-9 and -
    url = "https://hooks.example.com/payhook"
    secrets = "secrets/notify.shop"              # a file: one whsec_… a line, newest first; this is the default
    types = ["charge.*", "CAPTURE"]              # the providers' event types; default: all
    mode = "live"                                # or "test"
    tenant = "shop-a"                            # whose facts; default: those of no tenant; "*" for all
    enabled = true
    timeout_s = 10.0                             # of a request in all
    headers = {x-team = "payments", authorization = {file = "secrets/notify/shop.token"}}

Paths are relative to the file's folder, and lead to where notify's secrets are (`notify.sender`). No secret
stands in the file itself.
"""

from __future__ import annotations

import re
import threading
import tomllib
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field, ValidationError, field_validator

from core.decision import Decision
from core.errors import SettingError
from core.event import REVERSED_TYPE, Mode
from core.files import TextFiles, problem_of
from core.location import Location
from core.routing import JOURNAL_TOPIC
from core.settings import Section
from journal.lake import has_table, open_table
from journal.reader import read_rows
from notify.addresses import holds_credentials, shown_url
from notify.errors import SubscribersUnreadable, SubscriberUnknown
from notify.settings import TIMEOUT_S_MAX, NotifySettings
from notify.signature import PREFIX

SUBSCRIBERS_MAX = 200
"""Each has connections of its own in every Python worker."""
HEADERS_MAX = 16
HEADER_CHARS_MAX = 4_096
ANY = "*"

_NAME = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,38}[a-z0-9])?")
_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,64}")
_VALUE = re.compile(r"[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?")
_OURS = frozenset(
    {
        *("accept-encoding", "connection", "content-encoding", "content-length", "content-type", "cookie", "expect"),
        *("host", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade"),
    }
)
_SECRET_HEADERS = frozenset({"authorization", "x-api-key"})


class HeaderFile(Section):
    file: str = Field(min_length=1)


class Subscriber(Section):
    """A section of the file; ``folder`` is the file's own."""

    name: str
    folder: Path
    url: str = Field(min_length=1, max_length=2_048)
    secrets: str = ""
    types: tuple[str, ...] = (ANY,)
    mode: Mode = "live"
    tenant: str | None = Field(None, min_length=1)
    enabled: bool = Field(True, strict=True)
    timeout_s: float | None = Field(None, gt=0, le=TIMEOUT_S_MAX)
    headers: dict[str, str | HeaderFile] = Field(default_factory=dict, max_length=HEADERS_MAX)

    @field_validator("url")
    @classmethod
    def _holds_no_password(cls, url: str) -> str:
        if holds_credentials(url):
            raise ValueError("a user or password in it is a secret: send it as a header whose value is in a file")
        return url

    @field_validator("types")
    @classmethod
    def _are_types(cls, types: tuple[str, ...]) -> tuple[str, ...]:
        for wanted in types:
            if not wanted or ANY in wanted[:-1]:
                raise ValueError(f"{wanted!r}: expected an event type, or its beginning with {ANY} at the end")
        return types

    @field_validator("headers")
    @classmethod
    def _may_be_set(cls, headers: dict[str, str | HeaderFile]) -> dict[str, str | HeaderFile]:
        for name, value in headers.items():
            lower_name = name.lower()
            if not _HEADER.fullmatch(name):
                raise ValueError(f"{name!r} isn't a header's name")
            if lower_name in _OURS or lower_name.startswith(("webhook-", "proxy-")):
                raise ValueError(f"{name} can't be set, it is payhook's own")
            if isinstance(value, str) and lower_name in _SECRET_HEADERS:
                raise ValueError(f'{name} is a secret: put it in a file, {name} = {{file = "…"}}')
            if isinstance(value, str):
                header_value(value)
        return headers

    @property
    def secrets_path(self) -> Path:
        return self.folder / (self.secrets or f"secrets/notify.{self.name}")

    def wants_type(self, event_type: str) -> bool:
        return any(
            event_type.startswith(wanted[:-1]) if wanted.endswith(ANY) else event_type == wanted
            for wanted in self.types
        )

    def may_see(self, tenant: str | None) -> bool:
        return self.tenant == ANY or self.tenant == tenant


def header_value(text: str) -> str:
    if len(text) > HEADER_CHARS_MAX or not _VALUE.fullmatch(text):
        raise ValueError(f"expected 1 to {HEADER_CHARS_MAX} printable ASCII characters as a header's value")
    return text


class SubscribersFile:
    """Reads the file as it is now; any thread may ask."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._files = TextFiles()
        self._lock = threading.Lock()
        self._text: str | None = None
        self._subscribers: Mapping[str, Subscriber] = {}

    def read_all(self) -> Mapping[str, Subscriber]:
        """Reads all subscribers by name, in the file's order.

        :raises SubscribersUnreadable: it is missing or wrong
        """
        try:
            text = self._files.text(self.path)
        except (OSError, ValueError) as unreadable:
            raise SubscribersUnreadable(self.path, problem_of(unreadable)) from unreadable
        with self._lock:
            if text is not self._text:
                self._subscribers = self._parse_file(text)
                self._text = text
            return self._subscribers

    def _parse_file(self, text: str) -> dict[str, Subscriber]:
        """Parses the file; refuses an empty one: an editor that is saving leaves it so for a moment, and that doesn't
        end all subscribers."""
        subscribers = parse_subscribers(text, self.path)
        if self._subscribers and not subscribers:
            problem = (
                "it no longer names a subscriber. Write `enabled = false` into sections, or restart without the file"
            )
            raise SubscribersUnreadable(self.path, problem)
        return subscribers

    def find(self, name: str) -> Subscriber | None:
        return self.read_all().get(name)

    def find_named(self, name: str) -> Subscriber:
        """Finds a subscriber, as `find`, for a person who named it.

        :raises SubscriberUnknown: there is none of that name
        """
        known = self.read_all()
        if name not in known:
            raise SubscriberUnknown(name, tuple(known))
        return known[name]


def subscribers_file(settings: NotifySettings) -> SubscribersFile:
    if not settings.subscribers_file:
        raise SettingError("notify.subscribers_file", "expected the path of the subscribers file")
    return SubscribersFile(Path(settings.subscribers_file))


def parse_subscribers(text: str, path: Path) -> dict[str, Subscriber]:
    """
    :raises SubscribersUnreadable: names the section and the field that is wrong, never a secret
    """
    try:
        tree = tomllib.loads(text)
    except tomllib.TOMLDecodeError as wrong:
        raise SubscribersUnreadable(path, str(wrong)) from wrong
    if len(tree) > SUBSCRIBERS_MAX:
        raise SubscribersUnreadable(path, f"{len(tree)} subscribers, above the limit of {SUBSCRIBERS_MAX}")
    return {name: _parse_subscriber(name, section, path) for name, section in tree.items()}


def _parse_subscriber(name: str, section: object, path: Path) -> Subscriber:
    if not _NAME.fullmatch(name):
        raise SubscribersUnreadable(path, f"[{name}]: a name is 1 to 40 of a-z, 0-9 and - (not at its ends)")
    if not isinstance(section, dict):
        raise SubscribersUnreadable(path, f"{name} isn't a section; write [{name}] and its fields below")
    for place, value in _find_texts(section, f"[{name}]"):
        if PREFIX in value:
            raise SubscribersUnreadable(path, f"{place} holds a secret: put it in a file and name that instead")
    for reserved in ("name", "folder"):
        if reserved in section:
            raise SubscribersUnreadable(path, f"[{name}] {reserved}: no such field")
    try:
        return Subscriber(name=name, folder=path.parent, **section)
    except ValidationError as wrong:
        first = wrong.errors(include_url=False, include_input=False)[0]
        field = ".".join(str(part) for part in first["loc"])
        problem = "no such field" if first["type"] == "extra_forbidden" else first["msg"]
        raise SubscribersUnreadable(path, f"[{name}] {field}: {problem}") from None


def _find_texts(node: object, place: str) -> Iterator[tuple[str, str]]:
    match node:
        case str():
            yield place, node
        case dict():
            for key, value in node.items():
                yield from _find_texts(value, f"{place} {key}")
        case list():
            for value in node:
                yield from _find_texts(value, place)


def shown_fields(subscriber: Subscriber) -> dict[str, Any]:
    """Returns the fields that a list of subscribers shows: no header's value, and of its url neither a user nor a
    query."""
    return {
        "name": subscriber.name,
        "url": shown_url(subscriber.url),
        "types": list(subscriber.types),
        "mode": subscriber.mode,
        "tenant": subscriber.tenant,
    }


_COLUMNS = ["item_seq", "event_type", "tenant"]


def missed_items(journal: Location, subscriber: Subscriber, since: datetime) -> list[int]:
    """Finds items that were ignored for a subscriber since then, in order: while it was disabled, off or wanted less.

    What became of one later the journal's own check says, when it is sent (`operations.selection.selections`). Of a
    reversal it isn't known here what it takes back: the handler decides.
    """
    if not has_table(str(journal)):
        return []
    topic = pc.field("topic")
    wanted = (
        (pc.field("decision") == Decision.IGNORED.value)
        & (pc.field("decided_at") >= pa.scalar(since, pa.timestamp("us", "UTC")))
        & pc.starts_with(topic, JOURNAL_TOPIC)
        & pc.ends_with(topic, f"/{subscriber.name}")
    )
    rows = read_rows(open_table(str(journal)), wanted, _COLUMNS).sort_by("item_seq").to_pylist()
    wants = {REVERSED_TYPE: True}
    for event_type in {row["event_type"] for row in rows} - wants.keys():
        wants[event_type] = subscriber.wants_type(event_type)
    return list(
        dict.fromkeys(row["item_seq"] for row in rows if wants[row["event_type"]] and subscriber.may_see(row["tenant"]))
    )
