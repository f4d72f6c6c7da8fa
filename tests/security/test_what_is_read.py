"""Who reads a payload or takes a table away is on record, by each channel; without a record nothing is handed out."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from cli.acting import this_account
from cli.main import main
from core.layout import Layout
from operations.audit_log import AuditLog
from tests.unit.console.listening import ADA, BOB, EVE, FAY
from tests.unit.console.pages.conftest import Pages, made
from tests.unit.console.test_api_selections import SelectionsApi


@pytest.fixture
def pages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Pages:
    monkeypatch.chdir(tmp_path)
    return made(tmp_path / "data")


def newest(pages: Pages) -> tuple[str, str, str, str]:
    act = AuditLog(Layout(pages.data).audit_log).read(1)[0]
    return act.actor, act.channel, act.action, act.what


def full(*_: object) -> None:
    raise OSError(28, "No space left on device")


def payhook(pages: Pages, *words: str) -> Result:
    return CliRunner().invoke(main, [*words, "--data", str(pages.data)])


@pytest.mark.parametrize("path", ["/dlq/items/1", "/dlq/items/1/payload"])
def test_a_page_with_a_payload(pages: Pages, path: str) -> None:
    assert pages.browser(EVE).get(path).status_code == 200
    assert newest(pages) == (EVE, "page", "read_payload", "ledger item 1")


def test_the_command_line_with_a_payload(pages: Pages) -> None:
    said = payhook(pages, "dlq", "show", "1", "--json")
    assert said.exit_code == 0 and "evt_" in said.output
    assert newest(pages) == (this_account(), "cli", "read_payload", "ledger item 1")


def test_the_api_with_a_payload(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    api = SelectionsApi(tmp_path)
    api.bench.dead(1)
    assert api.get("/items").status_code == 200 and api.acts() == [], "a list holds no payload"
    assert api.get("/items/1").json()["body_base64"] is not None
    assert api.acts() == [(BOB, "read_payload", "done", "ledger item 1")]
    monkeypatch.setattr("operations.audit_log.Appender.append", full)
    answer = api.get("/items/1")
    assert (answer.status_code, answer.json()["type"]) == (503, "/openapi.json#record-unavailable")
    assert "body_base64" not in answer.text


def test_an_export_of_a_page(pages: Pages) -> None:
    answer = pages.browser(FAY).get("/ledger/export/file?table=journal&format=csv&from=2026-01-01")
    assert answer.status_code == 200
    assert newest(pages) == (FAY, "page", "export", "payhook-live-journal.csv from 2026-01-01T00:00:00.000000Z")


def test_an_export_of_the_command_line(pages: Pages, tmp_path: Path) -> None:
    out = tmp_path / "postings.csv"
    assert payhook(pages, "ledger", "export", "--format", "csv", "--out", str(out)).exit_code == 0
    assert newest(pages) == (this_account(), "cli", "export", f"live postings into {out}")


def test_an_export_of_a_part_says_which(pages: Pages, tmp_path: Path) -> None:
    bounds, out = ("--from", "2026-01-01", "--to", "2026-01-31"), tmp_path / "journal.csv"
    said = payhook(pages, "ledger", "export", "--format", "csv", "--table", "journal", "--out", str(out), *bounds)
    assert said.exit_code == 0
    assert newest(pages)[3] == (
        f"live journal into {out} from 2026-01-01T00:00:00.000000Z to 2026-02-01T00:00:00.000000Z"
    )


def test_nothing_is_read_that_cant_be_put_on_record(
    pages: Pages, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    browsers = pages.browser(ADA)

    monkeypatch.setattr("operations.audit_log.Appender.append", full)
    for path in ("/dlq/items/1", "/dlq/items/1/payload", "/ledger/export/file?table=postings&format=csv"):
        answer = browsers.get(path)
        assert (answer.status_code, "be recorded" in answer.text) == (503, True), path
    said = payhook(pages, "dlq", "show", "1")
    assert (said.exit_code, "be recorded" in said.output, "evt_" in said.output) == (1, True, False)
    out = tmp_path / "files" / "postings.csv"
    out.parent.mkdir()
    said = payhook(pages, "ledger", "export", "--format", "csv", "--out", str(out))
    assert (said.exit_code, "be recorded" in said.output) == (1, True)
    assert list(out.parent.iterdir()) == []
