"""What `payhook status` says of a backlog."""

from typing import Any

from cli.status_command import catching_up, caught_up

KEEPS_UP: dict[str, Any] = {
    "lag": 12,
    "behind": False,
    "arrival_per_s": 118.6,
    "drain_per_s": None,
    "recover_s": None,
    "forecast": None,
    "batch_limit": 2_000,
}
FORECAST = {"at": "2026-01-31T12:00:00.000000Z", "until": "2026-01-31T12:00:40.000000Z", "seconds": 40.0}
BEHIND = {**KEEPS_UP, "behind": True, "lag": 300_000, "drain_per_s": 8_000.0, "recover_s": 37.5, "forecast": FORECAST}


def test_a_stream_that_keeps_up_shows_what_arrives():
    assert catching_up(KEEPS_UP) == [("arriving", "119 events/s")]


def test_a_backlog_shows_when_it_will_be_gone_and_what_was_said_of_it():
    lines = dict(catching_up(BEHIND))
    assert lines["backlog"] == (
        "300,000 events, gone in 38 s at 8,000 events/s; "
        "said at 2026-01-31T12:00:00.000000Z: gone at 2026-01-31T12:00:40.000000Z"
    )


def test_a_backlog_of_which_nothing_is_known_yet_says_so():
    reported = {**BEHIND, "drain_per_s": None, "recover_s": None, "forecast": None}
    assert dict(catching_up(reported))["backlog"].endswith("isn't known yet")


def test_a_backlog_that_grows_says_so():
    assert "growing" in dict(catching_up({**BEHIND, "recover_s": None}))["backlog"]


def test_a_stream_that_says_nothing_shows_nothing():
    assert catching_up({}) == []


def test_a_source_says_until_when_what_is_missing_and_what_came_in() -> None:
    well = {"until": "2026-01-31T11:58:00Z", "problem": None, "fetched": 3, "fetched_day": 17, "missing": 0}
    fails = {"until": None, "problem": "Kafka didn't acknowledge an event", "fetched": 0, "missing": 40}
    assert caught_up({"stripe": well, "square": fails}) == [
        ("caught up with square", "until never: Kafka didn't acknowledge an event; missing now: 40"),
        (
            "caught up with stripe",
            "until 2026-01-31T11:58:00Z: 3 events were missing and came in; 17 came in within a day",
        ),
    ]
