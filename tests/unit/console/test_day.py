"""The plots of the last day show what the journal says, step by step up to now."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from pathlib import Path

from console.day import KEPT_S, SPAN, STEP, DayReader, day_plots
from core.layout import Layout
from dead_letters.joined import JoinedIndex
from tests.dead_letters import DeadLetters, Rejected, UnknownMerchant
from tests.unit.console.places import dead_letters


def plotted(data: Path, letters: DeadLetters) -> dict[str, str]:
    """The plots by their caption, over a journal that nothing else reads."""
    dead = dead_letters(data, letters.clock, None)  # type: ignore[arg-type]
    dead.index.follow()
    stats = JoinedIndex({"ledger": dead.index}).stats()
    steps = DayReader().read("ledger", [Layout(data).ledger()], stats.at)
    return {one.caption: str(one.plot) for one in day_plots(steps, stats)}


def described(plot: str) -> str:
    found = re.search(r"<desc[^>]*>([^<]*)</desc>", plot)
    assert found is not None
    return found[1]


def test_a_day_is_96_steps_of_which_the_last_is_not_over(tmp_path: Path) -> None:
    letters = DeadLetters(tmp_path / "data")
    letters.books(letters.receive("evt_1"), 5, "EUR")
    letters.batch()
    now = letters.clock.now() + timedelta(minutes=7)
    steps = DayReader().read("ledger", [letters.layout], now)
    assert len(steps) == SPAN // STEP and steps[-1].at == letters.clock.now()
    assert [one.events for one in steps] == [0] * 95 + [1]


def test_an_answer_is_shown_again_for_a_minute(tmp_path: Path) -> None:
    letters = DeadLetters(tmp_path / "data")
    reader, now = DayReader(), letters.clock.now()

    def events(at: datetime) -> int:
        return sum(one.events for one in reader.read("ledger", [letters.layout], at))

    assert events(now) == 0
    letters.receive("evt_1")
    letters.batch()
    assert events(now + timedelta(seconds=KEPT_S - 1)) == 0
    assert events(now + timedelta(seconds=KEPT_S)) == 1


def test_the_plots_say_in_words_what_they_show(tmp_path: Path) -> None:
    data = tmp_path / "data"
    letters = DeadLetters(data)
    letters.dies(letters.receive("evt_bad"), Rejected("no"), 99)
    letters.dies(letters.receive("evt_slow"), UnknownMerchant("no merchant"), 99)
    letters.batch()
    for _ in range(7):
        letters.advance(30)
    plots = plotted(data, letters)
    assert described(plots["Throughput"]) == "2 events were decided, 2 tried."
    retries = letters.decisions("stripe:evt_slow:charge.captured").count("retry")
    assert described(plots["Retries by attempt and deaths, in 15 minutes"]) == (
        f"{retries} retries and 2 deaths in 24 hours."
    )
    assert described(plots["Dead letters, by the hour"]) == "2 are dead now, 0 were a day ago."
    assert described(plots["Latency, seconds from receipt to decision"]) == "P99 was 0.00 s at most."


def test_depth_is_counted_back_from_what_is_dead_now(tmp_path: Path) -> None:
    data = tmp_path / "data"
    letters = DeadLetters(data)
    for number in range(3):
        letters.dies(letters.receive(f"evt_{number}"), Rejected("no"), 99)
        letters.batch()
        letters.advance(20 * 3_600)
    plot = plotted(data, letters)["Dead letters, by the hour"]
    assert described(plot) == "3 are dead now, 2 were a day ago."


def test_a_stream_without_a_journal_has_plots_that_say_so(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    letters = DeadLetters(tmp_path / "other")
    plots = plotted(tmp_path / "data", letters)
    assert described(plots["Latency, seconds from receipt to decision"]) == "No event came in the last 24 hours."
    assert "nothing to show" in plots["Latency, seconds from receipt to decision"]
