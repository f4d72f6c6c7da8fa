"""An older copy of a journal that another stream reads is put back: the reader is refused until that is accepted."""

from __future__ import annotations

import contextlib
import shutil
from pathlib import Path

import pytest

from core.clock import SystemClock
from core.keys import join_key
from core.routing import journal_topic, topics_of
from core.settings import KafkaSettings
from journal.kafka_log import KafkaLog
from journal.reader import JournalReader
from processor.history.losses import Acceptance, Findings, accept_losses, find_losses
from processor.source.feed import JournalLog
from tests.integration.processor.own_streams import OwnStreams, says

TOPIC = journal_topic("greet", "retell")


def names(since: int, until: int) -> list[str]:
    return [f"guest-{number}" for number in range(since, until)]


def found(streams: OwnStreams) -> Findings:
    """What `payhook recover` finds in the reader's journal."""
    reader = JournalReader(str(streams.layout.stream("retell").journal))
    kafka = KafkaLog(KafkaSettings(bootstrap_servers=streams.bootstrap))
    with contextlib.closing(JournalLog(kafka, "retell", {"greet": streams.layout.stream("greet").journal})) as there:
        topics = sorted([TOPIC, topics_of("live").control])
        return find_losses("retell", reader.state(), reader, there, topics)


@pytest.mark.slow
def test_an_older_journal_is_refused_by_the_stream_that_reads_it(streams: OwnStreams, tmp_path: Path) -> None:
    greet, retell = streams.layout.stream("greet"), streams.layout.stream("retell")
    with streams.running() as wait_for:
        wait_for(lambda: says(streams, "retell").get("state") == "running", "the reader, once there is a journal")
        streams.post(*names(0, 6))
        wait_for(lambda: len(streams.applied("retell")) == 6, "what was applied")
    shutil.copytree(str(greet.journal), tmp_path / "older")
    with streams.running() as wait_for:
        streams.post(*names(6, 10))
        wait_for(lambda: len(streams.applied("retell")) == 10, "what came after the copy")
    shutil.rmtree(str(greet.journal))
    shutil.copytree(tmp_path / "older", str(greet.journal))
    # A machine without these two: nothing tells the source that its journal is older.
    shutil.rmtree(greet.index)
    shutil.rmtree(str(greet.postings), ignore_errors=True)

    with streams.running() as wait_for:
        wait_for(lambda: says(streams, "retell").get("state") == "refused", "the reader's refusal")
        streams.post(*names(10, 13))
        wait_for(lambda: len(streams.applied("greet")) == 13, "the source, which decides again and goes on")
        assert len(streams.applied("retell")) == 10
        assert "payhook recover" in says(streams, "retell")["why"]
        findings = found(streams)
        [parted] = findings.parted
        assert parted.topic == TOPIC
        who = Acceptance("ada", "the journal's disk was restored", SystemClock().now())
        accept_losses(retell.journal, findings, [], 0, who)
        wait_for(lambda: len(streams.applied("retell")) == 13, "the rest, without a restart")
        assert found(streams).parted == ()
    sources = [row.event_key or "" for row in streams.rows("greet") if row.decision == "applied"]
    heard = streams.applied("retell")
    assert len(heard) == len(set(heard)), "what was decided again is a copy"
    assert set(heard) == {join_key("retell", "retell", key) for key in sources}
