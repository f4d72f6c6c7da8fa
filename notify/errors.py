"""Errors on the way to a subscriber. Each error says by its ``kind`` what that means for the event."""

from __future__ import annotations

from pathlib import Path

from core.decision import ErrorKind
from core.errors import PayhookError

GONE = 410


class SubscribersUnreadable(PayhookError):
    """The subscribers file can't be read: every event would fail, so the stream waits."""

    kind = ErrorKind.SBE

    def __init__(self, path: Path, problem: str) -> None:
        self.path = path
        self.problem = problem
        super().__init__(f"the subscribers file {path} can't be used: {problem}")


class SubscriberUnknown(PayhookError):
    def __init__(self, name: str, known: tuple[str, ...]) -> None:
        self.name = name
        self.known = known
        super().__init__(f"no subscriber {name!r}: choose one of {', '.join(known) or 'none'}")


class SubscriberGone(PayhookError):
    """The file no longer has a subscriber that the stream was started with: removed, or a file saved by half."""

    kind = ErrorKind.SNBE

    def __init__(self, subscriber: str, path: Path) -> None:
        self.subscriber = subscriber
        self.path = path
        super().__init__(
            f"subscriber {subscriber} is no longer in {path}, its events wait. Put it back; to end it, write "
            "`enabled = false` into its section, or restart the processor without it"
        )


class FileUnusable(PayhookError):
    kind = ErrorKind.SNBE

    def __init__(self, subscriber: str, path: Path, problem: str) -> None:
        self.subscriber = subscriber
        self.path = path
        self.problem = problem
        super().__init__(f"subscriber {subscriber}: {path}: {problem}")


class NoticeUnreadable(PayhookError):
    """The event's body isn't an envelope of this code's version, so that it has no id to send it under."""

    kind = ErrorKind.NRE

    def __init__(self, event_key: str, problem: str) -> None:
        self.event_key = event_key
        self.problem = problem
        super().__init__(
            f"{event_key}: {problem}. Its processor runs another version: bring both to one, then replay the event"
        )


class AddressRefused(PayhookError):
    kind = ErrorKind.SNBE

    def __init__(self, subscriber: str, place: str, problem: str) -> None:
        self.subscriber = subscriber
        self.place = place
        self.problem = problem
        super().__init__(
            f"subscriber {subscriber}: nothing is sent to {place}: {problem}. Fix its url or its DNS, or allow it "
            f"under [notify.allow.{subscriber}]"
        )


class Unreachable(PayhookError):
    """No answer came: no connection, a broken one, or none in time. It may have been delivered all the same."""

    kind = ErrorKind.SNBE

    def __init__(self, subscriber: str, problem: str) -> None:
        self.subscriber = subscriber
        self.problem = problem
        super().__init__(f"subscriber {subscriber} doesn't answer: {problem}")


class NotTaken(PayhookError):
    """An answer other than 2xx. ``said`` is the beginning of its body; ``retry_after_s`` what it asks for."""

    kind = ErrorKind.SNBE

    def __init__(self, subscriber: str, status: int, said: str, retry_after_s: float | None) -> None:
        self.subscriber = subscriber
        self.status = status
        self.said = said
        self.retry_after_s = retry_after_s
        self.code = f"http_{status}"
        redirect = "; redirects aren't followed, set the new url" if 300 <= status <= 399 else ""
        super().__init__(f"subscriber {subscriber} answered {status}{redirect}; it said {said or 'nothing'}")
