"""``payhook notify``: what it prints, writes and exits with."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from cli import notify_commands
from cli.acting import this_account
from cli.main import main
from cli.place import Place
from core.clock import SystemClock, to_rfc3339
from core.layout import Layout
from load.subscriber import Reply, Subscriber
from notify.signature import new_secret
from operations.audit_log import AuditLog, AuditLogUnwritable
from stack.settings import load_settings


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PAYHOOK_DATA_DIR", str(tmp_path))
    return tmp_path


def payhook(*words: str) -> Result:
    return CliRunner().invoke(main, ["notify", *words])


class SubscriberOnFile:
    """A subscriber that runs, and its place in the files."""

    def __init__(self, data: Path) -> None:
        self.reply: Reply | None = None
        secret = new_secret()
        self.server = Subscriber([secret], SystemClock(), replies=lambda _: self.reply)
        self.secrets = data / "secrets" / "notify.shop"
        self.secrets.parent.mkdir()
        self.secrets.write_text(secret + "\n")
        self.file = data / "subscribers.toml"
        self.file.write_text(f'[shop]\nurl = "{self.server.url}"\ntypes = ["charge.*"]\n')
        self.disabled = data / "subscribers.disabled" / "shop.json"


@pytest.fixture
def shop(data: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SubscriberOnFile]:
    shop = SubscriberOnFile(data)
    allowed = {"shop": {"networks": ["127.0.0.0/8"], "ports": [shop.server.port], "http": True}}
    monkeypatch.setenv("PAYHOOK_NOTIFY__ALLOW", json.dumps(allowed))
    with shop.server:
        yield shop


def disable(shop: SubscriberOnFile) -> None:
    shop.disabled.parent.mkdir()
    shop.disabled.write_text('{"subscriber": "shop", "at": "2026-01-31T12:00:00Z", "reason": "it answered 410"}')


def listed() -> dict[str, str]:
    (one,) = json.loads(payhook("subscribers", "--json").stdout)
    return {name: one[name] for name in ("name", "state", "since", "why")}


def test_nobody_is_reported_before_there_is_a_file(data: Path) -> None:
    said = payhook("subscribers")
    assert (said.exit_code, said.stdout) == (0, f"there are no subscribers: {data}/subscribers.toml isn't there\n")


def test_subscribers_are_listed_with_their_state(shop: SubscriberOnFile) -> None:
    said = payhook("subscribers")
    assert said.exit_code == 0
    for word in ("shop", "active", "live", "charge.*", "http"):
        assert word in said.stdout
    disable(shop)
    said = payhook("subscribers")
    assert said.exit_code == 1
    assert "shop is disabled since 2026-01-31T12:00:00Z: it answered 410\n" in said.stdout
    wanted = {"name": "shop", "state": "disabled", "since": "2026-01-31T12:00:00Z", "why": "it answered 410"}
    assert listed() == wanted


def test_a_subscriber_that_cant_be_reported_says_why(shop: SubscriberOnFile, monkeypatch: pytest.MonkeyPatch) -> None:
    shop.secrets.write_text("")
    assert listed()["state"] == "unusable"
    assert "line 1 is empty" in listed()["why"]
    monkeypatch.delenv("PAYHOOK_NOTIFY__ALLOW")
    assert "only https" in listed()["why"]
    assert payhook("subscribers").exit_code == 1
    shop.file.write_text(shop.file.read_text() + "enabled = false\n")
    assert listed()["state"] == "off"
    assert payhook("subscribers").exit_code == 0


def test_a_subscriber_whose_header_cant_be_made_isnt_told(shop: SubscriberOnFile) -> None:
    shop.file.write_text(shop.file.read_text() + 'headers = {authorization = {file = "secrets/notify.shop.token"}}\n')
    assert listed()["state"] == "unusable"
    assert "secrets/notify.shop.token: No such file" in listed()["why"]
    (shop.secrets.parent / "notify.shop.token").write_text("Bearer a\nx: y\n")
    assert "printable ASCII" in listed()["why"]
    assert payhook("subscribers").exit_code == 1
    (shop.secrets.parent / "notify.shop.token").write_text("Bearer a\n")
    assert listed()["state"] == "active"


@pytest.mark.parametrize("host", ["10.1.2.3", "[::1]", "169.254.169.254"])
def test_a_subscriber_at_an_address_that_may_not_be_reached_isnt_told(shop: SubscriberOnFile, host: str) -> None:
    shop.file.write_text(f'[shop]\nurl = "https://{host}/in"\n')
    assert listed()["state"] == "unusable"
    assert "[notify.allow.shop]" in listed()["why"]
    assert payhook("subscribers").exit_code == 1


def test_a_wrong_file_is_one_sentence_and_exit_1(shop: SubscriberOnFile) -> None:
    shop.file.write_text("[shop]\n")
    said = payhook("subscribers")
    assert said.exit_code == 1
    assert said.stderr == f"payhook: the subscribers file {shop.file} can't be used: [shop] url: Field required\n"


def test_enable_ends_what_a_410_began(shop: SubscriberOnFile) -> None:
    disable(shop)
    assert payhook("enable", "shop").stdout == "shop gets events again\n"
    assert listed()["state"] == "active"
    assert payhook("enable", "shop").stdout == "shop wasn't disabled\n"
    said = payhook("enable", "shp")
    assert (said.exit_code, said.stderr) == (1, "payhook: no subscriber 'shp': choose one of shop\n")


def test_enable_says_that_the_file_keeps_it_off(shop: SubscriberOnFile) -> None:
    shop.file.write_text(shop.file.read_text() + "enabled = false\n")
    assert f"it stays off: enabled = false in {shop.file}" in payhook("enable", "shop").stdout


def test_a_test_event_is_signed_has_no_fact_and_shows_the_answer(shop: SubscriberOnFile) -> None:
    disable(shop)
    said = payhook("test", "shop")
    assert (said.exit_code, said.stdout[:7]) == (0, "200 in ")
    (envelope,) = shop.server.envelopes
    assert envelope.keys() == {"version", "id", "type", "time"}
    assert envelope["type"] == "payhook.test"
    assert shop.disabled.exists()


@pytest.mark.parametrize("status", [410, 404, 500, 307])
def test_a_test_event_that_isnt_taken_is_exit_1_and_changes_nothing(shop: SubscriberOnFile, status: int) -> None:
    shop.reply = Reply(status)
    said = payhook("test", "shop")
    assert said.exit_code == 1
    assert str(status) in said.output


def test_a_new_secret_signs_first_and_the_older_one_beside_it(shop: SubscriberOnFile) -> None:
    older = shop.secrets.read_text().strip()
    fresh = payhook("new-secret", "shop").stdout.strip()
    assert shop.secrets.read_text() == f"{fresh}\n{older}\n"
    assert shop.secrets.stat().st_mode & 0o777 == 0o600
    for secret in (fresh, older):
        shop.server.trust(secret)
        assert payhook("test", "shop").exit_code == 0
    shop.server.trust(new_secret())
    assert payhook("test", "shop").exit_code == 1


def acts(data: Path) -> list[tuple[str, str, str, str, str]]:
    """What is on record, oldest first: who, what they did, to whom, with what outcome, and what changed."""
    found = AuditLog(Layout(data).audit_log).read(10)
    return [(one.actor, one.action, one.what, one.outcome, f"{one.before} to {one.after}") for one in reversed(found)]


def test_a_new_secret_is_on_record_without_the_secret(shop: SubscriberOnFile, data: Path) -> None:
    payhook("new-secret", "shop")
    payhook("new-secret", "shop")
    reported = [(this_account(), "notify_secret", "shop", "done", f"{n} secrets to {n + 1} secrets") for n in (1, 2)]
    assert acts(data) == reported


def test_two_new_secrets_at_once_are_both_kept(
    shop: SubscriberOnFile, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    both, make = threading.Barrier(2), new_secret

    def once_both_have_read() -> str:
        """Where one waits for the other, it doesn't come."""
        with contextlib.suppress(threading.BrokenBarrierError):
            both.wait(1)
        return make()

    monkeypatch.setattr(notify_commands, "new_secret", once_both_have_read)
    before = shop.secrets.read_text().split()
    with ThreadPoolExecutor(2) as pool:
        made = list(pool.map(lambda _: notify_commands.add_secret(Place(load_settings(None), None), "shop"), range(2)))
    assert sorted(shop.secrets.read_text().split()) == sorted([*made, *before])
    assert [one[-1] for one in acts(data)] == ["1 secrets to 2 secrets", "2 secrets to 3 secrets"]


def test_enabling_is_on_record_where_it_changes_something(shop: SubscriberOnFile, data: Path) -> None:
    payhook("enable", "shop")
    disable(shop)
    payhook("enable", "shop")
    assert acts(data) == [(this_account(), "notify_enable", "shop", "done", "disabled: it answered 410 to enabled")]


def test_what_cannot_be_put_on_record_is_not_done(
    shop: SubscriberOnFile, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unwritable(*_: object) -> None:
        raise AuditLogUnwritable("acts", "disk full")

    monkeypatch.setattr(AuditLog, "record", unwritable)
    disable(shop)
    before = shop.secrets.read_text()
    for words in (["new-secret", "shop"], ["enable", "shop"]):
        said = payhook(*words)
        assert (said.exit_code, said.stdout) == (1, "")
    assert (shop.secrets.read_text(), shop.disabled.exists()) == (before, True)


def test_there_are_never_more_secrets_than_can_sign(shop: SubscriberOnFile) -> None:
    for _ in range(3):
        assert payhook("new-secret", "shop").exit_code == 0
    before = shop.secrets.read_text()
    said = payhook("new-secret", "shop")
    assert said.exit_code == 1
    assert "remove the last lines (the oldest)" in said.stderr
    assert shop.secrets.read_text() == before


def test_a_first_secret_is_made_with_its_folder(shop: SubscriberOnFile) -> None:
    shop.file.write_text(shop.file.read_text() + 'secrets = "secrets/notify/shop"\n')
    fresh = payhook("new-secret", "shop").stdout.strip()
    assert (shop.secrets.parent / "notify" / "shop").read_text() == f"{fresh}\n"


def test_no_secret_is_written_where_none_is_read(shop: SubscriberOnFile) -> None:
    shop.file.write_text(shop.file.read_text() + 'secrets = "subscribers.toml"\n')
    before = shop.file.read_text()
    said = payhook("new-secret", "shop")
    assert said.exit_code == 1
    assert "notify reads no secret there" in said.stderr
    assert shop.file.read_text() == before


def test_secrets_that_cannot_be_read_are_one_sentence(shop: SubscriberOnFile) -> None:
    shop.secrets.write_bytes(b"\xff\xfe\n")
    said = payhook("new-secret", "shop")
    assert (said.exit_code, said.stderr) == (1, f"payhook: subscriber shop: {shop.secrets}: it isn't UTF-8\n")


def status_says(data: Path, downstream: Mapping[str, object], at: str | None = None) -> None:
    file = Layout(data).stream("notify").status
    file.parent.mkdir(parents=True, exist_ok=True)
    said = {"at": at or to_rfc3339(SystemClock().now()), "downstreams": {"subscriber:shop": downstream}}
    file.write_text(json.dumps(said))


FAILS = {
    "state": "open",
    "since": "2026-01-31T12:00:00.000000Z",
    "failing_since": "2026-01-31T11:59:00.000000Z",
    "why": "NotTaken: subscriber shop answered 500; it said nothing",
    "next_try_at": "2026-01-31T13:00:00.000000Z",
}


def test_a_subscriber_that_fails_is_listed_since_when_why_and_until_when(shop: SubscriberOnFile, data: Path) -> None:
    status_says(data, FAILS)
    assert listed() == {
        "name": "shop",
        "state": "failing",
        "since": "2026-01-31T11:59:00.000000Z",
        "why": "NotTaken: subscriber shop answered 500; it said nothing",
    }
    said = payhook("subscribers")
    assert said.exit_code == 1
    assert "next try at 2026-01-31T13:00:00.000000Z" in said.stdout


def test_a_subscriber_that_is_well_again_is_active_and_an_old_status_says_nothing(
    shop: SubscriberOnFile, data: Path
) -> None:
    status_says(data, {**FAILS, "since": None, "failing_since": None, "why": "", "next_try_at": None})
    assert listed()["state"] == "active"
    status_says(data, FAILS, at="2026-01-31T12:00:00.000000Z")
    assert listed()["state"] == "active"
    assert payhook("subscribers").exit_code == 0


def test_what_a_subscriber_missed_is_sent_once_it_is_enabled(shop: SubscriberOnFile) -> None:
    disable(shop)
    said = payhook("send", "shop", "--since", "2026-01-31")
    assert said.exit_code == 1
    assert "enable it first (payhook notify enable shop)" in said.output
    payhook("enable", "shop")
    said = payhook("send", "shop", "--since", "2026-01-31")
    assert (said.exit_code, said.stdout) == (0, "shop missed 0 events since 2026-01-31T00:00:00.000000Z\n")


def test_what_is_off_in_the_file_is_enabled_there_before_anything_is_sent(shop: SubscriberOnFile) -> None:
    shop.file.write_text(shop.file.read_text() + "enabled = false\n")
    said = payhook("send", "shop", "--since", "2026-01-31")
    assert said.exit_code == 1
    assert "enable it first (enabled = true in the subscribers file)" in said.output
