"""Advises what to do next about dead events, by the class and the kind of their error."""

from __future__ import annotations

from collections.abc import Mapping

from core.decision import ErrorKind

_BY_CLASS: Mapping[str, str] = {
    "MerchantUnknown": "add the account that the error names to the merchant directory, then replay them all: no dead "
    "event is retried by itself",
    "MerchantClosed": "open the account in the directory and replay, or have finance settle by hand and resolve",
    "EventConflict": "send both bodies to the provider. If the first was booked, it stays booked: discard this one. If "
    "it is dead, discard the wrong one",
    "FactConflict": "ask the provider which of the two reports holds. If it is this one, reverse the booking, book "
    "this one by hand and resolve it: a replay dies again",
    "FactMismatch": "bring receiver and processor to one version and the same provider settings, then replay",
    "IdentityFailed": "correct the stream's identity function or its schema, restart, then replay",
    "RecordGone": "its topic no longer holds the record: have its sender publish it again, then resolve this one",
    "PreviousEventDead": "fix and replay the first item that they died with, with followers: it is their cause",
    "Poison": "ask the provider what it sends, or fix the adapter and restart the processor; then replay",
    "Forged": "it can't be replayed: give all services one kafka.record_keys_file, or find out who else writes to the "
    "topics; have the provider send the event again",
    "WrongMode": "find out who else writes to the topics: only a receiver may",
    "WorkerLost": "look for native crashes or memory in the handler; replay one before the others",
    "HandlerTimeout": "find what the handler waits for; a breaker or a shorter timeout of its own keeps others going",
    "HeadOfLineBlocked": "fix what its last error names, then replay; if it comes back every week, find the root cause",
    "PayloadUndecodable": "the stream's schema doesn't fit what is sent: fix it in streams.toml, restart, replay",
    "PayloadTooLarge": "raise payload_bytes_max of the stream if such sizes are meant, restart, replay",
    "NotTaken": "the subscriber refuses: ask its owner to fix it, then replay with --stream notify",
    "Unreachable": "the subscriber doesn't answer: ask its owner to fix it, then replay with --stream notify",
    "AddressRefused": "the subscriber's address isn't allowed: fix its URL or allow the network, then replay",
}
_BY_KIND: Mapping[ErrorKind, str] = {
    ErrorKind.NRE: "no retry helps: fix the handler or the data that it needs, then replay one, then the others",
    ErrorKind.SLE: "it should have been gone in a moment: if it comes back every week, classify it "
    "as SNBE, or fix what is called",
    ErrorKind.SNBE: "all its tries were used up: what it waits for took longer than the retry policy. Fix that, "
    "replay, and consider a longer policy",
    ErrorKind.SBE: "such errors should block the stream and never die: look at the rules that classify it",
}
_UNKNOWN = "look at one of them: payhook dlq show"
_WAITS = "nothing: they were never tried; each waits behind another event or for a failing downstream"


def give_advice(error_class: str | None, kind: ErrorKind | None) -> str:
    if error_class is None:
        return _WAITS
    plain = error_class.rsplit(".", 1)[-1]
    return _BY_CLASS.get(plain) or (_BY_KIND[kind] if kind is not None else _UNKNOWN)
