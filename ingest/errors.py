"""The receiver's refusals: each code with its status, a message for the sender, and the operator's remedy.

The log, the page ``/received``, the API and the CLI show the same remedies.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple, get_args

import orjson

from core.errors import PayhookError
from providers.port import SignatureReason

MESSAGE_CHARS_MAX = 300
RETRY_AFTER_S = 2
"""Seconds after which the sender of a request that got a 503 should try again."""


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
        "wrong_host": RefusalResponse(400, "send one Host header: a name, with a port where there is one"),
        "wrong_target": RefusalResponse(400, "the target must be a path, or http(s)://host/path"),
        "wrong_coding": RefusalResponse(400, "Transfer-Encoding must be chunked, once, in HTTP/1.1"),
        "forbidden_trailer": RefusalResponse(400, "that field must come before the body"),
        "chunk_overhead": RefusalResponse(
            400, "the chunks' sizes and extensions take over {bytes_max} bytes more than their data"
        ),
        "head_too_slow": RefusalResponse(408, "the headers didn't arrive within {seconds:g} s; send it again"),
        "target_too_long": RefusalResponse(414, "the target is longer than {bytes_max} bytes"),
        "unknown_expectation": RefusalResponse(417, "Expect may only be 100-continue"),
        "too_many_pipelined": RefusalResponse(
            429, "over {requests_max} requests wait on this connection; send each after the last one's answer", True, 1
        ),
        "head_too_large": RefusalResponse(431, "the headers are larger than {bytes_max} bytes"),
        "too_many_headers": RefusalResponse(431, "there are more than {headers_max} headers"),
        "unknown_coding": RefusalResponse(501, "Transfer-Encoding may only be chunked"),
        "unknown_method": RefusalResponse(501, "no such method here; send webhooks by POST"),
        "too_many_connections": _build_unavailable(
            "there are too many connections; nothing was read, send it again", closes=True
        ),
        "wrong_version": RefusalResponse(505, "use HTTP/1.1 or HTTP/1.0"),
    }
)
"""Refusals of any request, before its path is looked at."""

SIGNATURE: Mapping[str, RefusalResponse] = MappingProxyType(
    {f"signature_{reason}": RefusalResponse(401, "{problem}", False) for reason in get_args(SignatureReason)}
)
"""Refusals that have the status which the provider knows in place of 401."""

WEBHOOKS: Mapping[str, RefusalResponse] = MappingProxyType(
    {
        "signature_several": RefusalResponse(400, "{problem}", False),
        "unreadable": RefusalResponse(400, "{problem}", False),
        "cut_off": RefusalResponse(400, "the connection ended before the body did"),
        "unknown_provider": RefusalResponse(404, "no such provider; known are {known}"),
        "unknown_endpoint": RefusalResponse(404, "an endpoint's name is 1 to 64 letters, digits, _ and -"),
        "not_found": RefusalResponse(
            404, "nothing is here; send webhooks by POST to /webhooks/{{provider}}[/{{endpoint}}]"
        ),
        "wrong_method": RefusalResponse(405, "only {allow} is allowed here"),
        "too_slow": RefusalResponse(408, "the body didn't arrive within {seconds:g} s; send it again"),
        "in_flight": RefusalResponse(
            409, "another delivery of this event is under way; send it again in a moment", False, 1
        ),
        "too_large": RefusalResponse(413, "the body is larger than {bytes_max} bytes"),
        "encoded": RefusalResponse(415, "Content-Encoding isn't allowed: signatures cover plain bytes"),
        "wrong_type": RefusalResponse(415, "Content-Type must be {wanted}, in UTF-8"),
        "mode_mismatch": RefusalResponse(422, "{problem}", False),
        "too_many_requests": RefusalResponse(
            429, "more than {per_s:g} requests a second of this provider; nothing was accepted, send it again", False
        ),
        "not_published": _build_unavailable("Kafka did not accept the event; nothing is lost, send it again"),
        "not_configured": _build_unavailable(
            "the receiver isn't set up to verify what {provider} sends; its operator must set its secrets"
        ),
        "not_there": _build_unavailable(
            "the provider's API doesn't know what this is about; nothing is lost, send it again"
        ),
        "not_fetched": _build_unavailable("the provider's API could not be asked; nothing is lost, send it again"),
        "not_masked": _build_unavailable(
            "the receiver could not scan it for card numbers; nothing is lost, send it again"
        ),
        "other_partitions": _build_unavailable(
            "kafka.events_partitions is {own} here and {announced} in the processor; nothing is lost, send it again"
        ),
        "other_record_keys": _build_unavailable(
            "the processor doesn't know the key that signs records here: kafka.record_keys_file must be the same "
            "everywhere; nothing is lost, send it again"
        ),
        "overloaded": _build_unavailable(
            "{limit} are under way already; nothing was accepted, send it again", closes=True
        ),
    }
)
"""Refusals of requests for a path."""

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
        """Returns ``{"error": {"code", "message"}}``; never more of the request than its kind."""
        return orjson.dumps({"error": {"code": self.code, "message": self.problem[:MESSAGE_CHARS_MAX]}})


RUNBOOK = "docs/runbook.md"

_STRANGER = "Nothing, unless a provider's webhooks are among them: "
_WRONG_KEY = "If most fail, write the provider's current secret to secrets/PROVIDER; the old one may stay beside it."

_SIGNATURES: Mapping[str, str] = {
    "missing": f"{_STRANGER}then a proxy takes the signature's header away.",
    "ambiguous": f"{_STRANGER}then ask the provider for ids without a dot.",
    "stale": "Compare this machine's clock with the time; if it is right, old requests are sent again.",
    "future": "Compare this machine's clock with the time.",
    "several": "Look at the proxy before the receiver: requests have the signature's header twice.",
    "reused": f"{_STRANGER}then ask the provider why one delivery has two bodies.",
    "unconfirmed": "Compare the credentials in secrets/PROVIDER-api: they must be of the webhook's app.",
}
"""Remedies are named by the signature's reason; any other is a wrong secret."""

REMEDIES: Mapping[str, str] = MappingProxyType(
    {
        **{f"signature_{reason}": _SIGNATURES.get(reason, _WRONG_KEY) for reason in get_args(SignatureReason)},
        # Answered 503: the provider sends again, so nothing is lost if the cause is fixed in time.
        "not_published": "Bring Kafka back: look at its log, its disk and the replicas of its topics.",
        "not_configured": "Write the file that the receiver's log names; it is read again each second.",
        "not_there": "Compare the credentials in secrets/PROVIDER-api: their account and mode are the endpoint's.",
        "not_fetched": "Ask the provider's API from this machine: network, credentials, the provider's status page.",
        "not_masked": "Update the receiver: its log names the provider and the error that stops the masking.",
        "other_partitions": "Set kafka.events_partitions to one number for all services and restart those that differ.",
        "other_record_keys": "Give all services the same file kafka.record_keys_file and restart those that differ.",
        "overloaded": "Start more workers or receivers (ingest.workers); limit a sender that holds most requests.",
        "too_many_connections": "Limit the address with most connections before the receiver; its log names it.",
        # Any other.
        "in_flight": "Nothing: the provider sends the event again in a moment.",
        "too_many_requests": "Raise ingest.rates_per_s of the provider if it should send so much.",
        "mode_mismatch": "Give the provider's test webhooks an endpoint of mode test, and live ones a live endpoint.",
        "unreadable": "Ask the provider what it sends there: the request can't be read before it is verified.",
        "unknown_provider": f"{_STRANGER}then correct the URL at the provider to /webhooks/PROVIDER.",
        "unknown_endpoint": "Correct the URL at the provider, or list the endpoint in ingest.endpoints.",
        "not_found": f"{_STRANGER}then correct the URL at the provider to /webhooks/PROVIDER.",
        "wrong_method": f"{_STRANGER}then look at the proxy: webhooks are posted.",
        "wrong_type": "Set the content type at the provider to the one that the answer names.",
        "encoded": "Turn compression off at the provider, or at the proxy before the receiver.",
        "too_large": "Raise ingest.body_bytes_max if the provider's webhooks are so large.",
        "too_slow": "Nothing for one; for many look at the network, and at the proxy before the receiver.",
        "cut_off": "Nothing for one; for many look at the network, and at the proxy's time-outs.",
        "head_too_slow": f"{_STRANGER}then look at the network, and at the proxy before the receiver.",
        "too_many_pipelined": f"{_STRANGER}then look at the proxy: it sends without waiting for answers.",
        **dict.fromkeys(
            (
                *("malformed", "wrong_host", "wrong_target", "wrong_coding", "forbidden_trailer", "chunk_overhead"),
                *("target_too_long", "unknown_expectation", "head_too_large", "too_many_headers", "unknown_coding"),
                *("unknown_method", "wrong_version"),
            ),
            f"{_STRANGER}then look at the proxy before the receiver: it changes requests.",
        ),
    }
)
"""Remedies are named by the refusal's code."""

UNAVAILABLE = frozenset(code for code, refusal in REFUSALS.items() if refusal.status == 503)
"""Codes that ask the provider to come again; each has an entry in the runbook."""


def runbook_of(code: str) -> str | None:
    return f"{RUNBOOK}#503-{code}" if code in UNAVAILABLE else None
