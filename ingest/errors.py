"""What the receiver refuses, each with its status and what to do."""

from __future__ import annotations

from core.errors import PayhookError


class Refused(PayhookError):
    """A request that gets an error answer; ``outcome`` is its word in receipts and metrics.

    ``closes``: the body wasn't read to its end, and what is left of it isn't worth reading.
    """

    def __init__(
        self,
        status: int,
        outcome: str,
        problem: str,
        retry_after_s: int | None = None,
        closes: bool = False,
        allow: str | None = None,
    ) -> None:
        self.status = status
        self.outcome = outcome
        self.problem = problem
        self.retry_after_s = retry_after_s
        self.closes = closes
        self.allow = allow
        super().__init__(problem)


def unknown_provider(provider: str, known: list[str]) -> Refused:
    return Refused(404, "unknown_provider", f"no provider {provider[:64]!r}; known are {', '.join(known)}", closes=True)


def unknown_endpoint() -> Refused:
    return Refused(404, "unknown_endpoint", "an endpoint's name is 1 to 64 letters, digits, _ and -", closes=True)


def wrong_method() -> Refused:
    return Refused(405, "wrong_method", "webhooks are posted", closes=True, allow="POST")


def too_large(bytes_max: int) -> Refused:
    return Refused(413, "too_large", f"the body is larger than {bytes_max} bytes", closes=True)


def too_slow(seconds: float) -> Refused:
    return Refused(408, "too_slow", f"the body wasn't there within {seconds:g} s; send it again", closes=True)


def cut_off() -> Refused:
    return Refused(400, "cut_off", "the connection ended before the body did", closes=True)


def encoded(encoding: str) -> Refused:
    problem = f"Content-Encoding {encoding[:32]!r} isn't taken: signatures are over plain bytes"
    return Refused(415, "encoded", problem, closes=True)


def in_flight() -> Refused:
    return Refused(409, "in_flight", "another delivery of this event is being taken; send it again in a moment", 1)


def not_published(retry_after_s: int) -> Refused:
    return Refused(503, "not_published", "Kafka did not take the event; nothing is lost, send it again", retry_after_s)


def not_configured(problem: str, retry_after_s: int) -> Refused:
    return Refused(503, "not_configured", problem, retry_after_s)
