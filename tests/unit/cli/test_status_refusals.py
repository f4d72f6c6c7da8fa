"""``payhook status`` counts what was refused within the last hour, and says what to do."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from cli.main import main
from ingest.errors import REMEDIES
from stack.endpoints import Endpoints, write_endpoints

SAID = {"ready": True, "ingest": {"ready": True}, "processor": {}, "refused": {"not_published": 1_433, "too_large": 2}}


@pytest.fixture
def data(tmp_path: Path) -> Iterator[Path]:
    """A data folder whose management listener says `SAID`."""

    class Answering(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(json.dumps(SAID).encode())

        def log_message(self, *_: object) -> None:
            """Silence on the terminal."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answering)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}"
    write_endpoints(tmp_path, Endpoints(url, url, "127.0.0.1:1", "redis://127.0.0.1:1/0", "j", {}))
    yield tmp_path
    server.shutdown()
    server.server_close()


def test_each_code_is_a_line_with_its_count_and_what_to_do(data: Path) -> None:
    shown = CliRunner(env={"COLUMNS": "200"}).invoke(main, ["status", "--data", str(data)])
    lines = [line for line in shown.output.splitlines() if "refused" in line]
    assert len(lines) == 2
    assert "refused not_published" in lines[0] and f"1,433 in the last hour. {REMEDIES['not_published']}" in lines[0]
    assert "refused too_large" in lines[1] and f"2 in the last hour. {REMEDIES['too_large']}" in lines[1]


def test_json_has_the_counts(data: Path) -> None:
    shown = CliRunner().invoke(main, ["status", "--json", "--data", str(data)])
    assert json.loads(shown.output)["refused"] == SAID["refused"]
