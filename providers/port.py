"""The port: every provider's adapter implements it, and these are the values that it takes and returns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Literal, Protocol, TypeAlias, runtime_checkable

from core import strict_json
from core.errors import PayhookError
from core.event import Event, Mode
from core.http_fields import strip_blanks
from core.money import MoneyFact
from providers.event_types import EventTypes

SignatureReason: TypeAlias = Literal[
    "missing", "malformed", "ambiguous", "mismatch", "stale", "future", "several", "untrusted", "reused", "unconfirmed"
]

DEFAULT_ENDPOINT = "default"
JSON = "application/json"
FORM = "application/x-www-form-urlencoded"
_READ = "_document"

_REMEDIES: dict[SignatureReason, str] = {
    "missing": "there is no signature: check that this is the provider's signed delivery",
    "malformed": "the signature can't be read",
    "ambiguous": "the id holds a dot, which ends it in what is signed: the provider's ids must have none",
    "mismatch": "no secret gives this signature: check that this endpoint's secret is the provider's",
    "stale": "the timestamp is too old: sign it again, or check the clocks",
    "future": "the timestamp is ahead of time: check the clocks",
    "several": "a signature header comes more than once: send each once",
    "reused": "this delivery came before with another body: what it signs doesn't tell bodies apart",
    "unconfirmed": "the provider's API knows no such event, or knows it with other money: check that the API's "
    "credentials are of the app in which this webhook is set up",
    "untrusted": "who signed isn't the provider: its certificate is named on a host that isn't the provider's",
}


class SignatureInvalid(PayhookError):
    """The request isn't proven to be the provider's. ``reason`` is one of a closed set."""

    def __init__(self, reason: SignatureReason) -> None:
        self.reason: SignatureReason = reason
        super().__init__(_REMEDIES[reason])


class ModeMismatch(PayhookError):
    """An unsigned live flag says otherwise than the endpoint. ``reported`` is None where there is no flag."""

    def __init__(self, endpoint: Mode, reported: Mode | None) -> None:
        self.endpoint: Mode = endpoint
        self.reported: Mode | None = reported
        super().__init__(
            f"this endpoint takes {endpoint} traffic, the request says {reported or 'neither live nor test'}: "
            "point the provider's webhook at the other endpoint"
        )


@dataclass(frozen=True)
class Wanted:
    """A fetch that an adapter needs before it can judge a request.

    ``url``: https, on a host that the adapter has checked against its own list. ``kept_s``: for how long an answer
    may be used again, 0 for never. ``bearers``: the credentials to ask with, one after the other until one is taken.
    ``token_url``: where each of them, a client's ``id:secret``, is exchanged for a token first (OAuth 2.0, RFC 6749
    section 4.4); None where they are tokens themselves. ``verified``: the request that asks was proven before.

    ``queries``: what each credential adds to the address, in their order; none without. ``headers``: sent beside the
    credential. ``may_appear``: a provider may tell of it before its own API knows it, so a 404 is asked again;
    ``within_s``: for so long at most within one request, which is less than the provider waits for its answer.
    ``since``: when it is said to have come to be, if that is known. ``content``: what is posted, as JSON; without it
    the address is only read.
    """

    url: str
    kept_s: float = 0.0
    bearers: tuple[str, ...] = field(default=(), repr=False)
    token_url: str | None = None
    verified: bool = False
    queries: tuple[str, ...] = ()
    headers: tuple[tuple[str, str], ...] = ()
    may_appear: bool = False
    within_s: float = 5.0
    since: datetime | None = None
    content: bytes = b""


@dataclass(frozen=True)
class Fetched:
    """The answer to a fetch: a 2xx, a 404 or a 410. After any other the provider's redelivery asks again.

    ``bearer`` is the index of the credential that was taken.
    """

    status: int
    body: bytes
    bearer: int = 0

    @property
    def is_there(self) -> bool:
        return 200 <= self.status <= 299


@dataclass(frozen=True)
class Request:
    """A webhook as received: the raw body, and ASGI's raw headers with lower-case names.

    ``endpoint`` is the last part of ``/webhooks/{provider}/{endpoint}``, `DEFAULT_ENDPOINT` without one, and ``mode``
    what its path says. ``fetched`` is what the adapter said that it `wants`. ``views`` are what the provider's API
    said of what the request points to (`PointingAdapter`), by the addresses that were asked.
    """

    body: bytes
    headers: Sequence[tuple[bytes, bytes]]
    endpoint: str = DEFAULT_ENDPOINT
    fetched: Fetched | None = None
    mode: Mode = "live"
    views: Mapping[str, bytes] = field(default_factory=dict)

    def values(self, name: bytes) -> list[bytes]:
        """Returns the values of the headers of that (lower-case) name, without blanks around them."""
        return [strip_blanks(value) for key, value in self.headers if key == name]

    def one(self, name: bytes) -> bytes | None:
        """Returns the value of the only header of that name, None without one.

        :raises SignatureInvalid: ``several``, because readers differ on which of two counts
        """
        values = self.values(name)
        if len(values) > 1:
            raise SignatureInvalid("several")
        return values[0] if values else None

    @property
    def document(self) -> strict_json.Document:
        """Returns the body's document; the body is parsed once.

        :raises Unparseable: by `core.strict_json`
        """
        read: strict_json.Document | None = self.__dict__.get(_READ)
        if read is None:
            # What functools.cached_property does, without its lock.
            read = self.__dict__[_READ] = strict_json.load_json(self.body)
        return read


@dataclass(frozen=True)
class Answer:
    """The acknowledgement that a provider wants."""

    status: int
    body: bytes
    content_type: str


ACCEPTED = Answer(200, b'{"status":"accepted"}', "application/json")


@runtime_checkable
class Adapter(Protocol):
    """The adapter of a provider: its signature, how a request splits, what its events are called and what money they
    moved.

    ``name``: as in ``/webhooks/{name}`` and at the head of every key. ``media_type``: what its webhooks are posted as,
    `JSON` or `FORM`. ``signature_status``: the HTTP status that tells this provider that its signature is wrong, 401
    unless it wants another. ``identity_fields``: names of the body's fields that hold ids; what looks like a card
    number there is none. ``envelopes``: names of objects around such fields, beside those that `ingest.pan_body` knows.
    ``content_version``: the version of the list of fields that ``content_sha256`` leaves out.
    ``event_types``: which of the provider's types book, are left to a person, or move nothing.
    """

    name: str
    media_type: str
    signature_status: int
    identity_fields: frozenset[str]
    envelopes: frozenset[str]
    content_version: int
    event_types: EventTypes

    def verify(self, request: Request, secrets: Sequence[str], now: datetime) -> int:
        """Returns the index of the secret that signed; of several (Adyen's items) the highest, so that old ones show.

        :raises SignatureInvalid: not all of the request is proven
        :raises SettingError: a secret isn't of the provider's form
        """

    def events(self, request: Request, mode: Mode) -> list[Event]:
        """Reads the events of a verified request, each with its exact bytes, in the request's order.

        A money part that can't be trusted doesn't lose the event: it is named without its fact, and `money`
        raises when it is handled.

        :param mode: the endpoint's; where the provider signs its live flag, the flag decides
        :raises Unparseable: signed, and not readable as the provider's events: poison. Where only some of a
            request's events are, they are returned as poison events beside the good ones
        :raises ModeMismatch: an unsigned live flag disagrees with the endpoint
        """

    def money(self, body: bytes, event_type: str) -> MoneyFact | None:
        """Reads what money one event moved, from its own bytes; None for none.

        :raises MoneyInvalid: it moved money, and how much can't be known for sure
        :raises MovementUnknown: no table says whether it moved money: its type, or a value that decides it, isn't known
        :raises Unparseable: the body can't be read
        """

    def content_sha256(self, body: bytes, version: int) -> str:
        """Hashes the content of one event's bytes as ``version`` made it (0: poison, the hash of the bytes).

        :raises ContentVersionUnknown: made by code that is newer than this
        :raises Unparseable: the body can't be read
        """

    def accepted(self) -> Answer:
        """Returns the answer that stops redelivery."""

    def check_secret(self, secret: str) -> None:
        """
        :raises SettingError: empty, or not of the provider's form
        """

    def new_secret(self) -> str: ...


@runtime_checkable
class FetchingAdapter(Adapter, Protocol):
    """An adapter that has to ask the provider before it can verify or split a request.

    It never asks by itself: it says what it wants, and finds it in `Request.fetched`.
    """

    def wants(self, request: Request, secrets: Sequence[str]) -> Wanted | None:
        """Says what to fetch for a request; None for nothing.

        :raises SignatureInvalid: the request names something that isn't the provider's
        :raises Unparseable: the request doesn't say what it is about
        """


@runtime_checkable
class WeaklySigningAdapter(Adapter, Protocol):
    """An adapter of a provider whose signature leaves room for another body. A delivery's id is signed beside it."""

    def delivery_id(self, request: Request) -> str:
        """Returns the id of a verified request, under which one body comes and no other."""

    def original(self, request: Request, credentials: Sequence[str]) -> Wanted | None:
        """Says where the provider's API tells what it sent by a verified request. None where it moves no money.

        :param credentials: of the API, newest first; at least one
        :raises SettingError: one of them isn't of the provider's form
        """

    def check_original(self, request: Request, original: Fetched) -> None:
        """
        :raises SignatureInvalid: ``unconfirmed``, the API's answer doesn't have the request's names and money
        """

    def check_credential(self, credential: str) -> None:
        """
        :raises SettingError: empty, or not of the form that the provider's API takes
        """


@runtime_checkable
class PointingAdapter(Adapter, Protocol):
    """An adapter of a provider whose webhooks may only point to what moved; its API tells the rest.

    Its events keep what was told (`providers.pointed`). Without credentials they are taken as they are.
    """

    def points_to(self, request: Request, credentials: Sequence[str]) -> Sequence[Wanted]:
        """Says what to ask the API about a verified request. Nothing where it can't be read, or moves no money.

        :param credentials: of the API, newest first; at least one
        :raises SettingError: one of them isn't of the provider's form
        :raises ModeMismatch: an unsigned live flag disagrees with the endpoint
        """

    def check_answer(self, wanted: Wanted, answer: bytes) -> None:
        """
        :raises Unparseable: it isn't what was asked for
        """

    def check_credential(self, credential: str) -> None:
        """
        :raises SettingError: empty, or not of the form that the provider's API takes
        """


@dataclass(frozen=True, slots=True)
class Span:
    """A time from ``since`` to before ``until``, both UTC: when events came to be, by the provider's clock."""

    since: datetime
    until: datetime


@dataclass(frozen=True, slots=True)
class ListedPage:
    """A page of a provider's own list of events.

    ``bodies``: of each event the body of a webhook that would tell of it. ``next_page``: what names the page after it;
    None: this is the last one.
    """

    bodies: Sequence[bytes]
    next_page: str | None = None


@runtime_checkable
class ListingAdapter(Adapter, Protocol):
    """An adapter of a provider whose API lists the events that it generated, delivered or not.

    ``listed_for``: how far back the list goes. ``newest_first``: which end it begins at.
    """

    listed_for: timedelta
    newest_first: bool

    def page_wanted(self, span: Span, page: str | None, mode: Mode, credentials: Sequence[str]) -> Wanted | None:
        """Says how to ask for a page of the list; None where no credential is of this mode.

        :param page: `ListedPage.next_page` of the page before it; None: the first one
        :param credentials: of the API, newest first; at least one
        :raises SettingError: one of them isn't of the provider's form
        """

    def read_page(self, answer: bytes, span: Span) -> ListedPage:
        """Reads the page in an answer. It may hold events of before or after the span where the API can't be asked for
        one.

        :raises Unparseable: it isn't a page of the list
        """

    def check_credential(self, credential: str) -> None:
        """
        :raises SettingError: empty, or not of the form that the provider's API takes
        """


@dataclass(frozen=True, slots=True)
class ProviderEndpoint:
    url: str
    is_enabled: bool


@runtime_checkable
class EndpointsAdapter(Adapter, Protocol):
    """An adapter of a provider whose API says where it sends webhooks, and whether that is switched off."""

    def endpoints_wanted(self, mode: Mode, credentials: Sequence[str]) -> Wanted | None:
        """Says how to ask for the list of endpoints, in one page; None where no credential is of this mode.

        :param credentials: of the API, newest first; at least one
        :raises SettingError: one of them isn't of the provider's form
        """

    def read_endpoints(self, answer: bytes) -> list[ProviderEndpoint]:
        """Reads the endpoints in an answer.

        :raises Unparseable: it isn't such a list
        """


@runtime_checkable
class SplittingAdapter(Adapter, Protocol):
    """An adapter whose events keep less than a request's body: the bytes of their own item, or of what a form holds."""

    def request_of(self, item: bytes, mode: Mode) -> bytes:
        """Builds the body of a request that holds only that item, its bytes as they are; signed by nobody."""
