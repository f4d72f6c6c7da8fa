"""The operator's remedy for each refusal: one table for the log, the page ``/received``, the API and the CLI."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import get_args

from ingest.errors import REFUSALS
from providers.port import SignatureReason

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
"""By the signature's reason; any other is a wrong secret."""

REMEDIES: Mapping[str, str] = MappingProxyType(
    {
        **{f"signature_{reason}": _SIGNATURES.get(reason, _WRONG_KEY) for reason in get_args(SignatureReason)},
        # Answered 503: the provider sends again, so nothing is lost while the cause is mended in time.
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
"""By the refusal's code."""

UNAVAILABLE = frozenset(code for code, refusal in REFUSALS.items() if refusal.status == 503)
"""Codes that ask the provider to come again; each has an entry in the runbook."""


def runbook_of(code: str) -> str | None:
    """The runbook's entry of a code; None for one that has none."""
    return f"{RUNBOOK}#503-{code}" if code in UNAVAILABLE else None
