"""What the receiver refuses, each with its status and what to do."""

from __future__ import annotations

import math

import orjson

from core.errors import PayhookError

MESSAGE_CHARS_MAX = 300


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


def error_json(refused: Refused) -> bytes:
    """``{"error": {"code", "message"}}``; never more of the request than its kind."""
    content = {"error": {"code": refused.outcome, "message": refused.problem[:MESSAGE_CHARS_MAX]}}
    return orjson.dumps(content)


def unknown_provider(known: list[str]) -> Refused:
    return Refused(404, "unknown_provider", f"no such provider; known are {', '.join(known)}", closes=True)


def unknown_endpoint() -> Refused:
    return Refused(404, "unknown_endpoint", "an endpoint's name is 1 to 64 letters, digits, _ and -", closes=True)


def not_found() -> Refused:
    return Refused(404, "not_found", "nothing is here; webhooks are posted to /webhooks/{provider}[/{endpoint}]")


def only_read() -> Refused:
    return Refused(405, "wrong_method", "this is read with GET", allow="GET")


def wrong_method() -> Refused:
    return Refused(405, "wrong_method", "webhooks are posted", closes=True, allow="POST")


def too_large(bytes_max: int) -> Refused:
    return Refused(413, "too_large", f"the body is larger than {bytes_max} bytes", closes=True)


def too_slow(seconds: float) -> Refused:
    return Refused(408, "too_slow", f"the body wasn't there within {seconds:g} s; send it again", closes=True)


def cut_off() -> Refused:
    return Refused(400, "cut_off", "the connection ended before the body did", closes=True)


def encoded() -> Refused:
    return Refused(415, "encoded", "no Content-Encoding is taken: signatures are over plain bytes", closes=True)


def wrong_type(wanted: str) -> Refused:
    return Refused(415, "wrong_type", f"Content-Type must be {wanted}, in UTF-8", closes=True)


def in_flight() -> Refused:
    return Refused(409, "in_flight", "another delivery of this event is being taken; send it again in a moment", 1)


def not_published(retry_after_s: int) -> Refused:
    return Refused(503, "not_published", "Kafka did not take the event; nothing is lost, send it again", retry_after_s)


def not_configured(problem: str, retry_after_s: int) -> Refused:
    return Refused(503, "not_configured", problem, retry_after_s)


def malformed(problem: str) -> Refused:
    return Refused(400, "malformed", f"the request isn't HTTP/1.1: {problem}", closes=True)


def wrong_host() -> Refused:
    return Refused(400, "wrong_host", "one Host header with a name and perhaps a port is wanted", closes=True)


def wrong_target() -> Refused:
    return Refused(400, "wrong_target", "the target must be a path, or http(s)://host/path", closes=True)


def wrong_coding() -> Refused:
    problem = "Transfer-Encoding must be chunked, once, in HTTP/1.1"
    return Refused(400, "wrong_coding", problem, closes=True)


def unknown_coding() -> Refused:
    return Refused(501, "unknown_coding", "no Transfer-Encoding but chunked is taken", closes=True)


def unknown_method() -> Refused:
    return Refused(501, "unknown_method", "no such method here; webhooks are posted", closes=True)


def unknown_expectation() -> Refused:
    return Refused(417, "unknown_expectation", "no Expect but 100-continue is met", closes=True)


def upgrade() -> Refused:
    return Refused(400, "upgrade", "the connection speaks HTTP/1.1 and stays so", closes=True)


def wrong_version() -> Refused:
    return Refused(505, "wrong_version", "HTTP/1.1 or HTTP/1.0 is wanted", closes=True)


def forbidden_trailer() -> Refused:
    return Refused(400, "forbidden_trailer", "that field must come before the body", closes=True)


def chunk_overhead(bytes_max: int) -> Refused:
    problem = f"the chunks say more about themselves than they hold, by over {bytes_max} bytes"
    return Refused(400, "chunk_overhead", problem, closes=True)


def target_too_long(bytes_max: int) -> Refused:
    return Refused(414, "target_too_long", f"the target is longer than {bytes_max} bytes", closes=True)


def head_too_large(bytes_max: int) -> Refused:
    return Refused(431, "head_too_large", f"the headers are larger than {bytes_max} bytes", closes=True)


def too_many_headers(headers_max: int) -> Refused:
    return Refused(431, "too_many_headers", f"there are more than {headers_max} headers", closes=True)


def head_too_slow(seconds: float) -> Refused:
    return Refused(408, "head_too_slow", f"the headers weren't there within {seconds:g} s; send it again", closes=True)


def too_many_connections(retry_after_s: int) -> Refused:
    problem = "there are too many connections; nothing was read, send it again"
    return Refused(503, "too_many_connections", problem, retry_after_s, closes=True)


def too_many_pipelined(requests_max: int) -> Refused:
    problem = f"over {requests_max} requests wait on this connection; send each after the last one's answer"
    return Refused(429, "too_many_pipelined", problem, 1, closes=True)


def overloaded(limit: str, retry_after_s: int) -> Refused:
    problem = f"{limit} are under way already; nothing was taken, send it again"
    return Refused(503, "overloaded", problem, retry_after_s, closes=True)


def too_many_requests(per_s: float, after_s: float) -> Refused:
    problem = f"more than {per_s:g} requests a second of this provider; nothing was taken, send it again"
    return Refused(429, "too_many_requests", problem, max(1, math.ceil(after_s)))


def not_fetched(retry_after_s: int) -> Refused:
    problem = "the provider could not be asked about this; nothing is lost, send it again"
    return Refused(503, "not_fetched", problem, retry_after_s)


def not_masked(retry_after_s: int) -> Refused:
    problem = "the receiver could not look it through for card numbers; nothing is lost, send it again"
    return Refused(503, "not_masked", problem, retry_after_s)
