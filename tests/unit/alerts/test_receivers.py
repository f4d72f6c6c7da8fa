"""Receivers are real: over HTTP on a socket, or by a program that runs."""

from __future__ import annotations

import errno
import json
import os
import socket
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from alerts.engine import AlertNotice, NoticeKind
from alerts.receivers import NotDelivered, make_receivers
from alerts.rules import Severity
from alerts.settings import AlertsSettings, ReceiverSettings
from tests.unit.notify.receiver import SubscriberServer, receiving, status

AT = datetime(2026, 1, 31, 12, tzinfo=UTC)
NOTICE = AlertNotice(
    "a/b", 1, NoticeKind.FIRING, "dlq_depth", "ledger", Severity.WARNING, "ä", 101.0, 100.0, AT, AT, "r"
)


def deliver(**settings: Any) -> None:
    alerts = AlertsSettings(receivers={"oncall": ReceiverSettings(**settings)})
    make_receivers(alerts)["oncall"].deliver(NOTICE)


def webhook(server: SubscriberServer, **more: Any) -> None:
    allowed = {"networks": ("127.0.0.0/8",), "ports": (server.port,), "http": True}
    deliver(**({"url": f"http://127.0.0.1:{server.port}/hook?token=secret"} | allowed | more))


def script(folder: Path, text: str) -> tuple[str, ...]:
    path = folder / "tell.sh"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o700)
    return (str(path), "first", "$(second)")


def test_a_webhook_gets_the_notice_as_json_under_its_id(server: SubscriberServer) -> None:
    webhook(server)
    (request,) = server.requests
    assert request.line.startswith("POST /hook?token=secret ")
    assert json.loads(request.body) == NOTICE.as_tree()
    assert request.headers["content-type"] == "application/json"
    assert request.headers["webhook-id"] == "a/b#1"
    assert "authorization" not in request.headers


def test_a_webhook_that_wants_a_token_gets_it_from_its_file(server: SubscriberServer, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("sesame\n")
    webhook(server, token_file=str(tmp_path / "token"))
    assert server.requests[0].headers["authorization"] == "Bearer sesame"
    with pytest.raises(NotDelivered, match="can't be read"):
        webhook(server, token_file=str(tmp_path / "none"))
    assert len(server.requests) == 1


@pytest.mark.parametrize("code", [302, 404, 429, 500, 503])
def test_any_answer_but_a_good_one_is_a_refusal(server: SubscriberServer, code: int) -> None:
    server.replies(status(code, "location: http://127.0.0.1:1/", body=b"no\x1b[31m way"))
    with pytest.raises(NotDelivered, match=rf"it answered {code} no \[31m way"):
        webhook(server)
    assert len(server.requests) == 1


def test_a_webhook_that_does_not_answer_costs_its_time_and_no_more(
    server: SubscriberServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("alerts.receivers.TIMEOUT_S", 0.3)

    def silent(_: socket.socket) -> None:
        server.ended.wait()

    server.answer = silent
    with pytest.raises(NotDelivered, match="no answer within 0.3 s"):
        webhook(server)


def test_a_webhook_that_is_down_is_a_refusal() -> None:
    with receiving() as server:
        pass
    with pytest.raises(NotDelivered, match="no connection"):
        webhook(server)


@pytest.mark.parametrize(
    ("changes", "reported"),
    [
        ({"networks": ()}, "networks can allow it"),
        ({"ports": ()}, "port .* isn't allowed"),
        ({"url": "http://169.254.169.254/latest", "networks": ("169.254.0.0/16",)}, "hands out credentials"),
    ],
)
def test_nothing_goes_to_an_address_that_is_not_allowed(server: SubscriberServer, changes: Any, reported: str) -> None:
    with pytest.raises(NotDelivered, match=reported) as refused:
        webhook(server, **changes)
    assert server.requests == [] and "secret" not in str(refused.value)


def test_a_command_gets_the_notice_on_its_input_and_its_arguments_as_they_are(tmp_path: Path) -> None:
    deliver(command=script(tmp_path, f'cat > {tmp_path}/got; printf "%s|" "$@" > {tmp_path}/args; echo said; exit 0'))
    assert json.loads((tmp_path / "got").read_text()) == NOTICE.as_tree()
    assert (tmp_path / "args").read_text() == "first|$(second)|", "there is no shell"


def test_a_command_that_reads_nothing_is_reported_all_the_same(tmp_path: Path) -> None:
    deliver(command=script(tmp_path, "exit 0"))


def test_a_command_that_fails_is_a_refusal_with_its_words(tmp_path: Path) -> None:
    with pytest.raises(NotDelivered, match="ended with 3 the modem is away"):
        deliver(command=script(tmp_path, "echo the modem is away >&2; exit 3"))


def test_a_command_that_hangs_is_killed_with_all_that_it_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("alerts.receivers.TIMEOUT_S", 2.0)
    with pytest.raises(NotDelivered, match="didn't end within 2 s and was killed"):
        deliver(command=script(tmp_path, f"sleep 600 & echo $! > {tmp_path}/pid; wait"))
    child = int((tmp_path / "pid").read_text())
    until = time.monotonic() + 30
    while _runs(child) and time.monotonic() < until:
        time.sleep(0.02)
    assert not _runs(child)


def test_a_command_that_is_not_there_is_a_refusal(tmp_path: Path) -> None:
    with pytest.raises(NotDelivered, match="can't be run"):
        deliver(command=(str(tmp_path / "none"),))


def test_a_command_whose_words_find_no_room_on_the_disk_is_a_refusal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full() -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("tempfile.TemporaryFile", full)
    with pytest.raises(NotDelivered, match="can't be run: No space left on device"):
        deliver(command=script(tmp_path, "exit 0"))


@pytest.mark.parametrize(
    ("settings", "reported"),
    [
        ({}, "either url or command"),
        ({"url": "https://a", "command": ("/b",)}, "either url or command"),
        ({"command": ("page",)}, "an absolute path"),
        ({"url": "http://a"}, "where http is set"),
        ({"url": "chat.example/hook", "http": True}, "expected https"),
        ({"url": "https:///hook"}, "expected https"),
        ({"url": "https://ada:secret@chat.example/"}, "set token_file"),
        ({"url": "https://a", "networks": ("10.0.0.0/99",)}, "10.0.0.0/99"),
        ({"url": "https://a", "ports": (0,)}, "isn't a port"),
    ],
)
def test_a_receiver_that_can_be_none_is_refused_at_the_start(settings: Any, reported: str) -> None:
    with pytest.raises(ValidationError, match=reported):
        ReceiverSettings(**settings)


def _runs(pid: int) -> bool:
    """A process that ended and that nobody has asked about yet doesn't run."""
    try:
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (ProcessLookupError, FileNotFoundError):
        return False
