"""What `payhook status` says of what a verification last found."""

from typing import Any

from cli.status_command import list_verified

AT = "2026-01-31T12:00:00.000000Z"


def outcome(**said: Any) -> str:
    [(name, line)] = list_verified({"ledger": {"at": AT, **said}, "ledger-test": {"at": AT, "wrong": []}}, "live")
    assert name == "verified ledger" and line.startswith(f"{AT}: ")
    return line.removeprefix(f"{AT}: ")


def test_what_does_not_hold_and_what_was_not_checked_is_named() -> None:
    invariants = {"balanced": {"not_checked": None}, "anchors_hold": {"not_checked": "Kafka doesn't answer"}}
    assert outcome(wrong=[], invariants=invariants) == "all of it holds; not checked: anchors_hold"
    assert outcome(wrong=["balanced"], invariants=invariants) == "balanced does not hold; not checked: anchors_hold"


def test_what_an_earlier_version_left_is_told_as_far_as_it_goes() -> None:
    assert outcome(wrong=["balanced", "chain_whole"], deep=False) == "balanced, chain_whole do not hold"
    assert outcome(wrong=[], deep=True) == "all of it holds"
