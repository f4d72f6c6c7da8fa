"""The receiver's refusals: each code with its status and a message that says what to do."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple, get_args

import orjson

from core.errors import PayhookError
from providers.port import SignatureReason

MESSAGE_CHARS_MAX = 300
RETRY_AFTER_S = 2
"""Of a 503."""


class RefusalResponse(NamedTuple):
    """The status and the message of one code; ``{…}`` are fields that the caller gives.

    ``closes``: the body wasn't read to its end, and what is left of it isn't worth reading.
    """

    status: int
    message: str
    closes: bool = True
    retry_after_s: int | None = None


def _build_unavailable(message: str, *, closes: bool = False) -> RefusalResponse:
    return RefusalResponse(503, message, closes, RETRY_AFTER_S)


HTTP: Mapping[str, RefusalResponse] = MappingProxyType(
    {
        "malformed": RefusalResponse(400, "the request isn't HTTP/1.1: {problem}"),
        "wrong_host": RefusalResponse(400, "one Host header with a name and perhaps a port is wanted"),
        "wrong_target": RefusalResponse(400, "the target must be a path, or http(s)://host/path"),
        "wrong_coding": RefusalResponse(400, "Transfer-Encoding must be chunked, once, in HTTP/1.1"),
        "forbidden_trailer": RefusalResponse(400, "that field must come before the body"),
        "chunk_overhead": RefusalResponse(
            400, "the chunks say more about themselves than they hold, by over {bytes_max} bytes"
        ),
        "head_too_slow": RefusalResponse(408, "the headers weren't there within {seconds:g} s; send it again"),
        "target_too_long": RefusalResponse(414, "the target is longer than {bytes_max} bytes"),
        "unknown_expectation": RefusalResponse(417, "no Expect but 100-continue is met"),
        "too_many_pipelined": RefusalResponse(
            429, "over {requests_max} requests wait on this connection; send each after the last one's answer", True, 1
        ),
        "head_too_large": RefusalResponse(431, "the headers are larger than {bytes_max} bytes"),
        "too_many_headers": RefusalResponse(431, "there are more than {headers_max} headers"),
        "unknown_coding": RefusalResponse(501, "no Transfer-Encoding but chunked is taken"),
        "unknown_method": RefusalResponse(501, "no such method here; webhooks are posted"),
        "too_many_connections": _build_unavailable(
            "there are too many connections; nothing was read, send it again", closes=True
        ),
        "wrong_version": RefusalResponse(505, "HTTP/1.1 or HTTP/1.0 is wanted"),
    }
)
"""Of any request, before its path is looked at."""

SIGNATURE: Mapping[str, RefusalResponse] = MappingProxyType(
    {f"signature_{reason}": RefusalResponse(401, "{problem}", False) for reason in get_args(SignatureReason)}
)
"""With the status that the provider knows in place of 401."""

WEBHOOKS: Mapping[str, RefusalResponse] = MappingProxyType(
    {
        "signature_several": RefusalResponse(400, "{problem}", False),
        "unreadable": RefusalResponse(400, "{problem}", False),
        "cut_off": RefusalResponse(400, "the connection ended before the body did"),
        "unknown_provider": RefusalResponse(404, "no such provider; known are {known}"),
        "unknown_endpoint": RefusalResponse(404, "an endpoint's name is 1 to 64 letters, digits, _ and -"),
        "not_found": RefusalResponse(
            404, "nothing is here; webhooks are posted to /webhooks/{{provider}}[/{{endpoint}}]"
        ),
        "wrong_method": RefusalResponse(405, "only {allow} is taken here"),
        "too_slow": RefusalResponse(408, "the body wasn't there within {seconds:g} s; send it again"),
        "in_flight": RefusalResponse(
            409, "another delivery of this event is being taken; send it again in a moment", False, 1
        ),
        "too_large": RefusalResponse(413, "the body is larger than {bytes_max} bytes"),
        "encoded": RefusalResponse(415, "no Content-Encoding is taken: signatures are over plain bytes"),
        "wrong_type": RefusalResponse(415, "Content-Type must be {wanted}, in UTF-8"),
        "mode_mismatch": RefusalResponse(422, "{problem}", False),
        "too_many_requests": RefusalResponse(
            429, "more than {per_s:g} requests a second of this provider; nothing was taken, send it again", False
        ),
        "not_published": _build_unavailable("Kafka did not take the event; nothing is lost, send it again"),
        "not_configured": _build_unavailable(
            "the receiver isn't set up to judge what {provider} sends; its operator must see to it"
        ),
        "not_there": _build_unavailable(
            "the provider's API doesn't know what this is about; nothing is lost, send it again"
        ),
        "not_fetched": _build_unavailable("the provider could not be asked about this; nothing is lost, send it again"),
        "not_masked": _build_unavailable(
            "the receiver could not look it through for card numbers; nothing is lost, send it again"
        ),
        "other_partitions": _build_unavailable(
            "kafka.events_partitions is {own} here and {announced} in the processor; nothing is lost, send it again"
        ),
        "other_record_keys": _build_unavailable(
            "the processor doesn't know the key that signs records here: kafka.record_keys_file must be the same "
            "everywhere; nothing is lost, send it again"
        ),
        "overloaded": _build_unavailable(
            "{limit} are under way already; nothing was taken, send it again", closes=True
        ),
    }
)
"""Of requests for a path."""

REFUSALS: Mapping[str, RefusalResponse] = MappingProxyType({**SIGNATURE, **HTTP, **WEBHOOKS})


class RequestRefused(PayhookError):
    """A request that gets an error answer. ``code`` is a key of `REFUSALS`; ``fields`` are its message's.

    ``status`` and ``retry_after_s`` replace those of the code. A field ``allow`` is sent as a header too. ``cause`` is
    for the log, never for the sender.
    """

    def __init__(
        self,
        code: str,
        *,
        status: int | None = None,
        retry_after_s: int | None = None,
        cause: str = "",
        **fields: Any,
    ) -> None:
        refusal = REFUSALS[code]
        self.code = code
        self.status = status or refusal.status
        self.problem = refusal.message.format(**fields)
        self.retry_after_s = retry_after_s or refusal.retry_after_s
        self.cause = cause
        self.closes = refusal.closes
        self.allow: str | None = fields.get("allow")
        super().__init__(self.problem)

    def json(self) -> bytes:
        """``{"error": {"code", "message"}}``; never more of the request than its kind."""
        return orjson.dumps({"error": {"code": self.code, "message": self.problem[:MESSAGE_CHARS_MAX]}})
