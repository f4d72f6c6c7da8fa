"""Sends a signed request to a subscriber, for the handler and `payhook notify test`."""

from __future__ import annotations

import ssl
import threading
from dataclasses import replace
from pathlib import Path

import httpx2

from core.card_numbers import quote_masked
from core.clock import Clock, retry_after_s
from core.errors import SettingError
from core.files import SecretsWrong, TextFiles, problem_of, secret_lines
from core.log import TRACEPARENT
from core.work import calling
from notify.addresses import (
    Resolver,
    SystemResolver,
    UrlParts,
    UrlRefused,
    find_refusal,
    is_literal,
    place_of,
    shown_url,
)
from notify.delivery import Deliveries, DeliveryAnswer, RequestTarget
from notify.errors import AddressRefused, FileUnusable, NotTaken
from notify.settings import Allowance, NotifySettings
from notify.signature import key_of, signed_headers
from notify.subscribers import HeaderFile, Subscriber, header_value

SECRETS, OURS = "secrets", "notify"


def secret_file(subscriber: Subscriber, path: Path, settings: NotifySettings) -> Path:
    """Returns the file that a path leads to, symbolic links followed.

    It is below ``secrets/notify/`` beside the subscribers file, one of ``secrets/notify.…``, or below
    `NotifySettings.secrets_dir`. Whether it is there isn't asked.

    :raises FileUnusable: it leads elsewhere
    """
    beside = subscriber.folder / SECRETS
    try:
        file = path.resolve()
        ours = [(beside / OURS).resolve(), *([Path(settings.secrets_dir).resolve()] if settings.secrets_dir else [])]
        own_name = file.parent == beside.resolve() and file.name.startswith(f"{OURS}.")
    except (OSError, RuntimeError, ValueError) as unreadable:
        raise FileUnusable(subscriber.name, path, f"it can't be followed: {unreadable}") from None
    if own_name or any(folder in file.parents for folder in ours):
        return file
    problem = (
        f"notify reads no secret there. Put it below {beside / OURS}/ or into {beside / OURS}.{subscriber.name}; "
        "notify.secrets_dir allows another folder"
    )
    raise FileUnusable(subscriber.name, path, problem)


CONNECT_S_MAX = 3.0
SILENCE_S_MAX = 10.0
"""Seconds without a byte within an answer."""
REQUEST_S_MAX = 10.0
"""In all, name resolution included, unless a subscriber has another; the stream's handler_deadline_s is longer."""
RETRY_AFTER_S_MAX = 3_600.0
"""A longer Retry-After is cut to this."""
SECRETS_MAX = 4
"""Secrets that are live at a time: two while one replaces the other, and some room."""
SAID_CHARS_MAX = 200
SECRET_CHARS_MIN = 8
"""A shorter word of a header's value, such as ``Bearer``, is no secret."""
ILL = frozenset({408, 429})
"""Answers below 500 that say that the subscriber can't keep up, rather than what it thinks of this event."""

_NOTHING_MORE = Allowance()


class Authorities:
    """The authorities that may issue subscribers' certificates: the public ones, and those of a file, if one is named.
    The context is made again when the file is changed; any thread may ask."""

    def __init__(self, ca_file: str) -> None:
        self._path = Path(ca_file) if ca_file else None
        self._files = TextFiles()
        self._lock = threading.Lock()
        self._made: tuple[str | None, ssl.SSLContext] | None = None

    def tls(self) -> ssl.SSLContext:
        text = None if self._path is None else self._files.text(self._path)
        with self._lock:
            if self._made is None or self._made[0] != text:
                self._made = text, _make_context(text)
            return self._made[1]


def _make_context(certificates: str | None) -> ssl.SSLContext:
    context = httpx2.create_ssl_context(trust_env=False)
    if certificates is not None:
        context.load_verify_locations(cadata=certificates)
    return context


class Sender:
    """Signs and posts. Any thread may send; the caller closes it.

    :raises SettingError: the file of CA certificates can't be used
    """

    def __init__(self, settings: NotifySettings, clock: Clock, resolver: Resolver | None = None) -> None:
        self._settings = settings
        self._clock = clock
        self._files = TextFiles()
        self._authorities = Authorities(settings.ca_file)
        try:
            self._authorities.tls()
        except (OSError, ValueError) as wrong:
            raise SettingError("notify.ca_file", f"{settings.ca_file} can't be used: {problem_of(wrong)}") from wrong
        self._deliveries = Deliveries(resolver or SystemResolver())

    def send(
        self, subscriber: Subscriber, message_id: str, body: bytes, traceparent: str | None = None
    ) -> DeliveryAnswer:
        """Sends one request; returns an answer that the subscriber gave in good health, refusals among them.

        Whatever keeps all requests from this subscriber is raised within `calling`. So its breaker opens, and events
        wait instead of dying one by one.

        :raises DownstreamHeld: it isn't to be called now
        :raises FileUnusable: its secrets, a header's value or the CA certificates
        :raises AddressRefused, Unreachable: from the delivery
        :raises NotTaken: 5xx, 408 or 429
        """
        with calling(downstream_of(subscriber.name)):
            target = self._make_target(subscriber)
            headers = self._make_headers(subscriber, message_id, body)
            if traceparent is not None:
                headers[TRACEPARENT] = traceparent
            answer = self._deliveries.post(target, headers, body)
            answer = replace(answer, said=self._without_secrets(subscriber, answer.said))
            if answer.status >= 500 or answer.status in ILL:
                raise self.not_taken(subscriber.name, answer)
        return answer

    def not_taken(self, name: str, answer: DeliveryAnswer) -> NotTaken:
        asked_s = retry_after_s(answer.retry_after, self._clock.now())
        wait_s = min(asked_s, RETRY_AFTER_S_MAX) if asked_s else None
        return NotTaken(name, answer.status, quote_masked(answer.said, SAID_CHARS_MAX) if answer.said else "", wait_s)

    def parse_url(self, subscriber: Subscriber) -> UrlParts:
        try:
            return place_of(subscriber.url, self._find_allowance(subscriber.name))
        except UrlRefused as refused:
            raise AddressRefused(subscriber.name, shown_url(subscriber.url), str(refused)) from None

    def check(self, subscriber: Subscriber) -> None:
        """Checks all of a subscriber that can be checked without sending anything or asking for its name.

        :raises AddressRefused, FileUnusable: requests to it would fail
        """
        place = self.parse_url(subscriber)
        if is_literal(place.host):
            problem = find_refusal(place.host, self._find_allowance(subscriber.name).parse_networks())
            if problem is not None:
                raise AddressRefused(subscriber.name, place.host, problem)
        self._make_headers(subscriber, "", b"")

    def read_keys(self, subscriber: Subscriber) -> list[bytes]:
        """Reads the live secrets' keys, newest first.

        :raises FileUnusable: there are none, or others than secrets, or their file may not be read
        """
        path = subscriber.secrets_path
        try:
            secrets = secret_lines(self._read_text(subscriber, path))
            if len(secrets) > SECRETS_MAX:
                raise SecretsWrong(
                    f"it holds {len(secrets)} secrets: expected 1 to {SECRETS_MAX}, one a line, newest first"
                )
            return [key_of(secret) for secret in secrets]
        except ValueError as wrong:
            raise FileUnusable(subscriber.name, path, str(wrong)) from None

    def close(self) -> None:
        self._deliveries.close()

    def _make_target(self, subscriber: Subscriber) -> RequestTarget:
        return RequestTarget(
            name=subscriber.name,
            place=self.parse_url(subscriber),
            allowed=self._find_allowance(subscriber.name).parse_networks(),
            tls=self._tls(subscriber.name),
            connect_timeout_s=CONNECT_S_MAX,
            read_timeout_s=SILENCE_S_MAX,
            timeout_s=subscriber.timeout_s or REQUEST_S_MAX,
        )

    def _tls(self, name: str) -> ssl.SSLContext:
        try:
            return self._authorities.tls()
        except (OSError, ValueError) as wrong:
            raise FileUnusable(name, Path(self._settings.ca_file), problem_of(wrong)) from wrong

    def _find_allowance(self, name: str) -> Allowance:
        return self._settings.allow.get(name, _NOTHING_MORE)

    def _make_headers(self, subscriber: Subscriber, message_id: str, body: bytes) -> dict[str, str]:
        own_headers = {name.lower(): self._read_value(subscriber, value) for name, value in subscriber.headers.items()}
        fixed = {"content-type": "application/json", "accept-encoding": "identity", "accept": "*/*"}
        signed = signed_headers(message_id, body, self.read_keys(subscriber), self._clock.now())
        return {"user-agent": "payhook", **own_headers, **fixed, **signed}

    def _read_value(self, subscriber: Subscriber, value: str | HeaderFile) -> str:
        if isinstance(value, str):
            return value
        path = subscriber.folder / value.file
        try:
            return header_value(self._read_text(subscriber, path).strip())
        except ValueError as wrong:
            raise FileUnusable(subscriber.name, path, str(wrong)) from None

    def _without_secrets(self, subscriber: Subscriber, text: str) -> str:
        """Masks secrets in an answer: it may repeat the headers it was sent, and what it says is kept in the
        journal."""
        for name, value in subscriber.headers.items():
            if isinstance(value, HeaderFile):
                for word in self._read_value(subscriber, value).split():
                    text = text.replace(word, f"({name})") if len(word) >= SECRET_CHARS_MIN else text
        return text

    def _read_text(self, subscriber: Subscriber, path: Path) -> str:
        file = secret_file(subscriber, path, self._settings)
        try:
            return self._files.text(file, sent_as=path)
        except (OSError, ValueError) as unreadable:
            raise FileUnusable(subscriber.name, path, problem_of(unreadable)) from unreadable


def downstream_of(name: str) -> str:
    return f"subscriber:{name}"
