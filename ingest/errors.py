"""What the receiver refuses, each with its status and what to do."""

from __future__ import annotations

from core.errors import PayhookError


class Refused(PayhookError):
    """A request that gets an error answer; ``outcome`` is its word in receipts and metrics."""

    def __init__(self, status: int, outcome: str, problem: str, retry_after_s: int | None = None) -> None:
        self.status = status
        self.outcome = outcome
        self.problem = problem
        self.retry_after_s = retry_after_s
        super().__init__(problem)


def unknown_provider(provider: str, known: list[str]) -> Refused:
    return Refused(404, "unknown_provider", f"no provider {provider[:64]!r}; known are {', '.join(known)}")


def too_large(bytes_max: int) -> Refused:
    return Refused(413, "too_large", f"the body is larger than {bytes_max} bytes")


def too_slow(seconds: float) -> Refused:
    return Refused(408, "too_slow", f"the body wasn't there within {seconds:g} s; send it again")


def encoded(encoding: str) -> Refused:
    return Refused(415, "encoded", f"Content-Encoding {encoding[:32]!r} isn't taken: signatures are over plain bytes")


def in_flight() -> Refused:
    return Refused(409, "in_flight", "another delivery of this event is being taken; send it again in a moment", 1)


def not_published(retry_after_s: int) -> Refused:
    return Refused(503, "not_published", "Kafka did not take the event; nothing is lost, send it again", retry_after_s)


def not_configured(problem: str, retry_after_s: int) -> Refused:
    return Refused(503, "not_configured", problem, retry_after_s)
