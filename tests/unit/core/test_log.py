"""Log records: JSON lines or text, and what they are about."""

from __future__ import annotations

import io
import json
import logging
import os
import pty
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

from core.log import JsonFormatter, TextFormatter, about_record, event_fields, in_this_context, log_context

CARD, HIDDEN = "4111111111111111", "411111******1111"
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
SENT = f"00-{TRACE}-00f067aa0ba902b7-01"


class LogLines(logging.Handler):
    def __init__(self, formatter: logging.Formatter) -> None:
        super().__init__()
        self.setFormatter(formatter)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(self.format(record))


@pytest.fixture
def log() -> Iterator[logging.Logger]:
    log = logging.getLogger("test_log")
    log.propagate = False
    yield log
    log.handlers.clear()


def test_a_json_line_has_what_it_is_about(log: logging.Logger) -> None:
    log.addHandler(lines := LogLines(JsonFormatter()))
    with log_context(stream="ledger"):
        log.warning("it waits", extra=event_fields("stripe:evt_1:charge.captured", SENT))
    log.warning("nothing in particular")
    first, second = map(json.loads, lines.lines)
    assert first["at"].endswith("Z") and first.pop("at")
    assert first == {
        "level": "warning",
        "logger": "test_log",
        "message": "it waits",
        "stream": "ledger",
        "event_key": "stripe:evt_1:charge.captured",
        "trace_id": TRACE,
    }
    assert second.keys() == {"at", "level", "logger", "message"}


def test_a_records_headers_name_its_event(log: logging.Logger) -> None:
    headers = [("event_key", b"stripe:evt_1:a"), ("traceparent", SENT.encode()), ("ce_id", None)]
    assert about_record(headers) == {"event_key": "stripe:evt_1:a", "trace_id": TRACE}
    assert about_record([]) == event_fields(None, "no trace") == {}


@pytest.mark.parametrize("formatter", [JsonFormatter(), TextFormatter()])
def test_no_card_number_is_in_any_part_of_a_line(log: logging.Logger, formatter: logging.Formatter) -> None:
    log.addHandler(lines := LogLines(formatter))
    try:
        raise ValueError(f"refused {CARD}")
    except ValueError:
        log.exception("paid with %s", CARD, extra=event_fields(f"stripe:{CARD}:charge"))
    assert CARD not in lines.lines[0] and lines.lines[0].count(HIDDEN) >= 3


def test_text_is_one_line_whatever_is_logged(log: logging.Logger) -> None:
    log.addHandler(lines := LogLines(TextFormatter()))
    with log_context(stream="notify"):
        log.warning("two\nlines \x1b[31mred", extra=event_fields("k"))
    (line,) = lines.lines
    assert line.endswith(r"WARNING test_log: two\nlines \x1b[31mred stream=notify event_key=k")


def test_a_thread_knows_its_stream_if_it_is_begun_in_its_context(log: logging.Logger) -> None:
    log.addHandler(lines := LogLines(JsonFormatter()))
    with log_context(stream="ledger"):
        inside, outside = in_this_context(lambda: log.info("in")), lambda: log.info("out")
        log.setLevel(logging.INFO)
        for target in (inside, outside):
            thread = threading.Thread(target=target)
            thread.start()
            thread.join()
    assert [json.loads(line).get("stream") for line in lines.lines] == ["ledger", None]


SAYS = "import logging; from core.log import configure_logging; configure_logging(); logging.warning('it waits')"


@pytest.mark.parametrize(("wanted", "is_json"), [(None, True), ("json", True), ("text", False)])
def test_who_redirects_it_gets_json_unless_text_is_asked_for(
    wanted: str | None, is_json: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if wanted is not None:
        monkeypatch.setenv("PAYHOOK_LOG_FORMAT", wanted)
    said = subprocess.run([sys.executable, "-c", SAYS], capture_output=True, text=True, timeout=60, check=True).stderr
    assert said.startswith("{") is is_json and "it waits" in said


def test_a_terminal_gets_text_unless_json_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    said = io.StringIO()
    for wanted in ("", "json"):
        monkeypatch.setenv("PAYHOOK_LOG_FORMAT", wanted)
        parent, child = pty.openpty()
        subprocess.run([sys.executable, "-c", SAYS], stderr=child, timeout=60, check=True)
        said.write(os.read(parent, 4_096).decode())
        os.close(child)
        os.close(parent)
    text, as_json = said.getvalue().splitlines()
    assert text.endswith("WARNING root: it waits") and json.loads(as_json)["message"] == "it waits"
