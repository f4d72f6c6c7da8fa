"""Defines what a handler is given, what it may answer, and how it asks before it calls a downstream.

It is the seam between the engine and a work stream.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Literal, Protocol, TypeAlias

import orjson

from core.decision import ErrorKind
from core.errors import PayhookError
from core.money import Money

Side: TypeAlias = Literal["debit", "credit"]

DOWNSTREAM_CHARS_MAX = 256


@dataclass(frozen=True, slots=True)
class PreviousEvent:
    """An earlier event of an entity that died: ``dead`` still, or ``purged``, ``resolved`` or ``released`` by people
    meanwhile.

    ``route``: its retry policy. ``seq``: the row that says so; None: the batch's own.
    """

    event_key: str
    decision: str
    route: str | None = None
    seq: int | None = None


@dataclass(frozen=True, slots=True)
class WorkItem:
    """Gives a handler one event. ``attempt`` is 0 on the first run, and on the first one after a replay; ``replays``:
    how often a person had it replayed since it was last closed.

    ``previous`` is an earlier event of the same entity that died and was passed over. Keys are scoped by ``tenant``
    (`core.routing.of_tenant`); ``fact_sha256`` is what reports of its fact must agree on. ``last_try``: the kinds of
    errors of which it is dead if it fails so now. ``died_before``: it is itself such an event, replayed.
    ``traceparent``: for requests to others where the event's trace is taken (W3C Trace Context). ``route``: the retry
    policy that it goes by. ``received_at``: when it came, ``occurred_at``: when it happened, as its provider says; None
    where nobody says it.
    """

    item_seq: int
    event_key: str
    entity_key: str
    provider: str
    account: str
    event_type: str
    body: bytes
    fact_key: str | None
    attempt: int
    previous: PreviousEvent | None = None
    tenant: str | None = None
    last_try: tuple[ErrorKind, ...] = ()
    died_before: bool = False
    fact_sha256: str | None = None
    traceparent: str | None = None
    replays: int = 0
    route: str | None = None
    received_at: datetime | None = None
    occurred_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Posting:
    """Books one line; ``money.amount_minor`` is positive, the side says which way."""

    account: str
    side: Side
    money: Money


@dataclass(frozen=True, slots=True)
class Applied:
    """The event took effect; ``postings`` may be empty where a stream books nothing.

    ``pair`` is what a movement and its undos have in common, a key as the event's own fact is
    (`core.routing.of_tenant`); ``undoes``: it is an undo, or a loss, which ends a movement as well. An undo counts only
    where a movement of its pair was booked before and not undone since, and is `Unknown` else. The next movement of
    that pair then counts as undone already, and books nothing.
    """

    postings: tuple[Posting, ...] = ()
    pair: str | None = None
    undoes: bool = False


@dataclass(frozen=True, slots=True)
class Ignored:
    """No handler knows this type yet; it can be replayed when one does.

    ``note``: what the handler's `DriverSide` is to keep of this answer.
    """

    reason: str
    note: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Unknown:
    """The handler can't tell what the event means, and nothing was booked: somebody has to look.

    ``code`` says what isn't known in a few words, such as ``type`` or ``status=frozen``: events are counted by it.
    """

    code: str
    reason: str


@dataclass(frozen=True, slots=True)
class Held:
    """The event wasn't tried: its downstream isn't to be called now. It costs no attempt and is due again later.

    ``reason`` continues the sentence that the downstream's name begins.
    """

    downstream: str
    retry_after_s: float
    reason: str = "isn't called now"


Outcome: TypeAlias = Applied | Ignored | Unknown | Held


class DownstreamHeld(PayhookError):
    """A handler that may not call a downstream now raises this through; the event is parked as `Held`."""

    def __init__(self, downstream: str, retry_after_s: float, reason: str = "isn't called now") -> None:
        self.downstream = downstream
        self.retry_after_s = retry_after_s
        self.reason = reason
        super().__init__(f"{downstream} {reason}; next try in {retry_after_s:g} s")


class DownstreamCalls(Protocol):
    def take_call(self, downstream: str) -> contextlib.AbstractContextManager[None]:
        """Takes one call; what is raised within counts as the downstream's failure, its duration as its latency.

        :raises DownstreamHeld: no call is left
        """


_calls: ContextVar[DownstreamCalls | None] = ContextVar("calls", default=None)
"""None: without limits, as in tests and in commands that a person runs."""


def calling(downstream: str) -> contextlib.AbstractContextManager[None]:
    """Goes around every request that a handler sends out: ``with calling("merchants"): client.get(…)``.

    Raise a refusal of a healthy downstream after the block: an error within says that the downstream is ill.

    :raises DownstreamHeld: it isn't to be called now; let it pass through
    :raises ValueError: the name is none; it goes into rows, metrics and the status
    """
    is_text = isinstance(downstream, str) and 0 < len(downstream) <= DOWNSTREAM_CHARS_MAX
    if not is_text or not downstream.isprintable():
        raise ValueError(f"a downstream's name is printable text of 1 to {DOWNSTREAM_CHARS_MAX} characters")
    calls = _calls.get()
    return contextlib.nullcontext() if calls is None else calls.take_call(downstream)


@contextlib.contextmanager
def limited_by(calls: DownstreamCalls) -> Iterator[None]:
    """Makes `take_call` ask ``calls`` within. A thread sees its own: pass it on."""
    before = _calls.set(calls)
    try:
        yield
    finally:
        _calls.reset(before)


class MissingPredecessor(PayhookError):
    """An event that can't be handled before another one of its entity, which may be among its followers.

    Unlike any other failed event it lets its followers be tried before it: while it waits for its next try, and when it
    is dead. The stream's setting for dead heads doesn't matter. When it is applied after one of them its row says
    ``out_of_order``.
    """

    kind = ErrorKind.SNBE

    def __init__(self, event_key: str, wanted: str) -> None:
        self.event_key = event_key
        self.wanted = wanted
        super().__init__(
            f"{event_key} needs {wanted} first: its retries wait for that; once it is dead, replay it when that has "
            "come"
        )


class PreviousEventDead(PayhookError):
    """A handler raises this where an event must not take effect after an earlier one of its entity died.

    The event is dead at once, and its row's ``cause_seq`` leads to that earlier event's. It holds back nobody.
    """

    kind = ErrorKind.NRE

    def __init__(self, item: WorkItem) -> None:
        assert item.previous is not None, "no earlier event of its entity is dead"
        self.event_key = item.event_key
        self.previous = item.previous
        super().__init__(
            f"{item.previous.event_key}, an earlier event of its entity, is {item.previous.decision}, and this one "
            "can't continue without it. If that one is dead, replay it first, then this one"
        )


@dataclass(slots=True)
class Receivers:
    """The receivers that a stream's feed has named since the processor began. A ``build`` with a parameter of this type
    gets it.

    The driver adds to it, and each job carries what it holds then. So workers know whom the stream serves.
    """

    names: tuple[str, ...] = ()

    def add(self, names: Sequence[str]) -> None:
        self.names = tuple(sorted({*self.names, *names}))


class Handler(Protocol):
    """A work stream's one function. It runs on an executor, serially within an entity.

    One that makes no calls, remembers nothing and answers by its event alone may have ``pure = True``. It then runs
    where records are read, also on events that turn out to be copies, and in no order.
    """

    version: str

    def __call__(self, item: WorkItem) -> Outcome:
        """Handles one event; whatever it raises is classified, never swallowed."""


class DriverSide(Protocol):
    """Serves a handler where its stream decides; executors may be on other machines, and share no folder with it.

    Beside a handler's ``build`` a function ``on_driver`` may stand, with parameters as ``build`` has them, that makes
    it.
    """

    def files(self) -> Mapping[Path, Path]:
        """The files that the handler reads (`core.files.TextFiles`): the path under which it asks for each, and the
        one where it is.
        """

    def keep(self, note: tuple[str, ...]) -> None:
        """Keeps a note of an answer (`Ignored.note`) for handlers to come. It is called before the answer is
        committed. Where it raises, the event dies of that.
        """


def reversed_postings(postings: Sequence[Posting]) -> tuple[Posting, ...]:
    return tuple(Posting(line.account, "credit" if line.side == "debit" else "debit", line.money) for line in postings)


def postings_to_json(postings: Sequence[Posting]) -> str | None:
    """Writes a booking as canonical JSON, or None for none: the journal's ``postings`` column."""
    if not postings:
        return None
    lines = [
        {
            "account": posting.account,
            "side": posting.side,
            "amount_minor": posting.money.amount_minor,
            "currency": posting.money.currency,
        }
        for posting in postings
    ]
    text = orjson.dumps(lines).decode("utf-8")
    return text if text.isascii() else json.dumps(lines, separators=(",", ":"), ensure_ascii=True)


def postings_from_json(text: str | None) -> tuple[Posting, ...]:
    if text is None:
        return ()
    return tuple(
        Posting(line["account"], line["side"], Money(line["amount_minor"], line["currency"]))
        for line in json.loads(text)
    )
