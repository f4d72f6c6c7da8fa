"""Receivers of notices: webhooks and commands. Each is tried once and within its time; `alerts.watch` tries
again."""

from __future__ import annotations

import contextlib
import os
import signal
import ssl
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

import httpx2

from alerts.engine import AlertNotice
from alerts.settings import AlertsSettings, ReceiverSettings
from core.errors import PayhookError
from core.files import problem_of
from notify.addresses import SystemResolver, UrlRefused, place_of, shown_url
from notify.delivery import Deliveries, RequestTarget
from notify.errors import AddressRefused, Unreachable

TIMEOUT_S = 10.0
"""Longest wait for an answer, or for a command's end."""

SAID_CHARS_MAX = 200
STDERR_BYTES_MAX = 4_096


class NotDelivered(PayhookError):
    def __init__(self, receiver: str, problem: str) -> None:
        self.receiver = receiver
        self.problem = problem
        super().__init__(f"receiver {receiver} didn't accept the notice: {problem}")


class NoticeReceiver(Protocol):
    @property
    def shown(self) -> str: ...

    def deliver(self, notice: AlertNotice) -> None:
        """
        :raises NotDelivered: it didn't take the notice, or that isn't known
        """


class WebhookReceiver:
    """A JSON POST; any answer but 2xx is a refusal. Addresses are checked as those of subscribers are."""

    def __init__(self, name: str, settings: ReceiverSettings, deliveries: Deliveries, tls: ssl.SSLContext) -> None:
        self._name = name
        self._settings = settings
        self._deliveries = deliveries
        self._tls = tls

    @property
    def shown(self) -> str:
        return shown_url(self._settings.url, path_is_secret=True)

    def deliver(self, notice: AlertNotice) -> None:
        headers = {
            "user-agent": "payhook",
            "content-type": "application/json",
            "accept-encoding": "identity",
            "webhook-id": notice.notice_id,
            **self._read_authorization(),
        }
        try:
            answer = self._deliveries.post(self._make_target(), headers, notice.as_json())
        except UrlRefused as refused:
            raise NotDelivered(self._name, f"{self.shown}: {refused}") from None
        except AddressRefused as refused:
            problem = f"{refused.place}: {refused.problem}; alerts.receivers.{self._name}.networks can allow it"
            raise NotDelivered(self._name, problem) from None
        except Unreachable as silent:
            raise NotDelivered(self._name, silent.problem) from None
        if not 200 <= answer.status < 300:
            raise NotDelivered(self._name, f"it answered {answer.status} {_make_printable(answer.said)}".rstrip())

    def _make_target(self) -> RequestTarget:
        settings = self._settings
        return RequestTarget(
            name=self._name,
            place=place_of(settings.url, settings),
            allowed=settings.parse_networks(),
            tls=self._tls,
            connect_timeout_s=TIMEOUT_S,
            read_timeout_s=TIMEOUT_S,
            timeout_s=TIMEOUT_S,
        )

    def _read_authorization(self) -> Mapping[str, str]:
        if not self._settings.token_file:
            return {}
        try:
            token = Path(self._settings.token_file).read_text("ascii").strip()
        except (OSError, ValueError) as unreadable:
            raise NotDelivered(self._name, f"{self._settings.token_file} can't be read: {unreadable}") from None
        if not token.isprintable() or not token or " " in token:
            raise NotDelivered(self._name, f"{self._settings.token_file} doesn't hold one token")
        return {"authorization": f"Bearer {token}"}


class CommandReceiver:
    """A program that gets the notice as JSON on its input. Exit 0 means taken; past its time it is killed, with all
    that it started.
    """

    def __init__(self, name: str, settings: ReceiverSettings) -> None:
        self._name = name
        self._settings = settings

    @property
    def shown(self) -> str:
        return self._settings.command[0]

    def deliver(self, notice: AlertNotice) -> None:
        try:
            code, words = self._run(notice)
        except OSError as failed:
            raise NotDelivered(self._name, f"{self.shown} can't be run: {problem_of(failed)}") from None
        if code != 0:
            raise NotDelivered(self._name, f"{self.shown} ended with {code} {words}".rstrip())

    def _run(self, notice: AlertNotice) -> tuple[int, str]:
        with tempfile.TemporaryFile() as stderr:
            process = subprocess.Popen(
                self._settings.command,
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=stderr,
                start_new_session=True,
            )
            code = self._end_of(process, notice)
            stderr.seek(0)
            return code, _make_printable(stderr.read(STDERR_BYTES_MAX).decode("utf-8", "replace"))

    def _end_of(self, process: subprocess.Popen[bytes], notice: AlertNotice) -> int:
        try:
            process.communicate(notice.as_json(), TIMEOUT_S)
        except subprocess.TimeoutExpired:
            _kill_all(process)
            problem = f"{self.shown} didn't end within {TIMEOUT_S:g} s and was killed"
            raise NotDelivered(self._name, problem) from None
        return process.returncode


def make_receivers(settings: AlertsSettings) -> dict[str, NoticeReceiver]:
    deliveries, tls = Deliveries(SystemResolver()), httpx2.create_ssl_context(trust_env=False)
    return {
        name: WebhookReceiver(name, receiver, deliveries, tls) if receiver.url else CommandReceiver(name, receiver)
        for name, receiver in settings.receivers.items()
    }


def _kill_all(process: subprocess.Popen[bytes]) -> None:
    """Kills the session that the command leads: it isn't waited for yet, so that the number is still its own."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    if process.stdin is not None:
        with contextlib.suppress(OSError):
            process.stdin.close()
    process.wait()


def _make_printable(text: str) -> str:
    return "".join(char if char.isprintable() else " " for char in text)[:SAID_CHARS_MAX].strip()
