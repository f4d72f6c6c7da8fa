"""A handler's files go with each job."""

from __future__ import annotations

import pickle
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from core import files
from core.files import TextFiles
from core.work import Applied, Ignored
from ledger.directory import DirectoryUnreadable, FileDirectory
from ledger.handler import on_driver as ledger_on_driver
from ledger.settings import LedgerSettings
from notify.errors import FileUnusable
from notify.handler import on_driver as notify_on_driver
from processor.workers.deadlines import Deadlines
from processor.workers.worker import HandlerFiles
from tests.unit.notify.place import SubscribersFolder, item, placed, row
from tests.unit.notify.receiver import SubscriberServer, receiving
from tests.unit.processor.limited import LimitedEngine


@pytest.fixture(autouse=True)
def executor(monkeypatch: pytest.MonkeyPatch) -> None:
    """After the test this process has its own files again."""
    monkeypatch.setattr(files, "_received", None)


@pytest.fixture
def place(tmp_path: Path) -> Iterator[SubscribersFolder]:
    (tmp_path / "there").mkdir()
    yield from placed(tmp_path / "there")


@pytest.fixture
def receiver() -> Iterator[SubscriberServer]:
    with receiving() as server:
        yield server


def ledger_files(path: Path) -> HandlerFiles:
    return HandlerFiles(ledger_on_driver(LedgerSettings(merchants_file=str(path))))


def arrive(sent: HandlerFiles) -> None:
    """On an executor, as a job brings them."""
    received: HandlerFiles = pickle.loads(pickle.dumps(sent))
    received.use_files()


def test_merchants_are_read_where_their_file_is_not(tmp_path: Path) -> None:
    path = tmp_path / "merchants.toml"
    path.write_text('[stripe]\n"acct" = "one"\n')
    sent, directory = ledger_files(path), FileDirectory(path)
    packed = pickle.dumps(sent)
    path.unlink()
    pickle.loads(packed).use_files()
    assert directory.lookup("stripe", "acct").internal_account == "one"


def test_a_change_arrives_with_the_next_job(tmp_path: Path) -> None:
    path = tmp_path / "merchants.toml"
    path.write_text('[stripe]\n"acct" = "one"\n')
    sent, directory = ledger_files(path), FileDirectory(path)
    arrive(sent)
    assert directory.lookup("stripe", "acct").internal_account == "one"
    path.write_text('[stripe]\n"acct" = "another"\n')
    assert directory.lookup("stripe", "acct").internal_account == "one"
    arrive(sent)
    assert directory.lookup("stripe", "acct").internal_account == "another"


def test_why_a_file_cant_be_read_arrives_too(tmp_path: Path) -> None:
    arrive(ledger_files(tmp_path / "merchants.toml"))
    with pytest.raises(DirectoryUnreadable, match="No such file"):
        FileDirectory(tmp_path / "merchants.toml").lookup("stripe", "acct")


def test_nothing_but_what_was_sent_is_read_on_an_executor(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_text("text")
    arrive(ledger_files(tmp_path / "merchants.toml"))
    with pytest.raises(FileNotFoundError, match="wasn't sent"):
        TextFiles().text(other)


def test_what_is_sent_is_not_shown(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("a-secret-token")
    side = ledger_on_driver(LedgerSettings(merchants_url="https://m.example", merchants_token_file=f"{tmp_path}/token"))
    arrive(HandlerFiles(side))
    assert TextFiles().text(tmp_path / "token") == "a-secret-token"
    assert "a-secret" not in repr(files._received)


def test_a_subscriber_is_sent_to_by_a_worker_without_any_of_its_files(
    place: SubscribersFolder, receiver: SubscriberServer
) -> None:
    place.add("shop", receiver.port, 'headers = {x-team = {file = "secrets/notify/team"}}')
    (place.folder / "secrets" / "notify").mkdir()
    (place.folder / "secrets" / "notify" / "team").write_text("payments\n")
    packed = pickle.dumps(HandlerFiles(notify_on_driver(place.notify_settings())))
    shutil.rmtree(place.folder)
    pickle.loads(packed).use_files()
    assert place.handler()(item("shop")) == Applied()
    (request,) = receiver.requests
    assert request.headers["x-team"] == "payments"


def test_who_answered_410_is_disabled_on_all_executors_with_the_next_job(
    place: SubscribersFolder, receiver: SubscriberServer
) -> None:
    place.add("shop", receiver.port)
    sent = HandlerFiles(notify_on_driver(place.notify_settings()))
    arrive(sent)
    answer = Ignored("it answered 410", note=("shop", "2026-01-31T12:00:00Z", "it answered 410"))
    sent.keep_notes({1: Applied(), 2: answer})
    arrive(sent)
    outcome = place.handler()(item("shop", row("evt_2")))
    assert isinstance(outcome, Ignored) and "is disabled since 2026-01-31" in outcome.reason
    assert receiver.requests == []


def test_a_secret_that_a_link_leads_away_from_is_not_sent(
    place: SubscribersFolder, receiver: SubscriberServer, tmp_path: Path
) -> None:
    place.add("shop", receiver.port)
    (tmp_path / "elsewhere").write_text("whsec_AAAA")
    secret = place.folder / "secrets" / "notify.shop"
    secret.unlink()
    secret.symlink_to(tmp_path / "elsewhere")
    packed = pickle.dumps(HandlerFiles(notify_on_driver(place.notify_settings())))
    assert b"whsec_AAAA" not in packed
    secret.unlink()
    pickle.loads(packed).use_files()
    with pytest.raises(FileUnusable, match="wasn't sent"):
        place.handler()(item("shop"))


class KeptNotes:
    def __init__(self) -> None:
        self.notes: list[tuple[str, ...]] = []

    def files(self) -> Mapping[Path, Path]:
        return {}

    def keep(self, note: tuple[str, ...]) -> None:
        self.notes.append(note)


def test_only_answers_with_a_note_are_kept(tmp_path: Path) -> None:
    side = KeptNotes()
    engine = LimitedEngine(tmp_path, side=side, deadlines=Deadlines(60.0, 60.0))
    answers = {engine.post("evt_1", "e1"): Ignored("no"), engine.post("evt_2", "e2"): Ignored("yes", note=("a", "b"))}
    engine.handler.script = dict.fromkeys(answers, lambda item: answers[item.event_key])
    engine.post("evt_3", "e3")
    engine.batch()
    assert side.notes == [("a", "b")]


def test_an_event_whose_note_cannot_be_kept_dies_and_holds_up_no_other_entity(tmp_path: Path) -> None:
    class Full(KeptNotes):
        def keep(self, note: tuple[str, ...]) -> None:
            raise OSError(f"no room for {note[0]}")

    engine = LimitedEngine(tmp_path, side=Full(), deadlines=Deadlines(60.0, 60.0))
    noted, behind, other = engine.post("evt_1", "e1"), engine.post("evt_2", "e1"), engine.post("evt_3", "e2")
    engine.handler.script[noted] = lambda _: Ignored("gone", note=("a",))
    engine.batch()
    decided = [engine.last(key) for key in (noted, behind, other)]
    assert [row.decision for row in decided] == ["dead", "parked", "applied"]
    assert (decided[0].error_class, decided[0].error_message) == ("OSError", "no room for a")
