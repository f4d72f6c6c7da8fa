"""The `payhook` command: what it prints, and its exit codes, without any server."""

from __future__ import annotations

import http.server
import json
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from cli.main import main
from cli.place import Place, with_place
from core.clock import SystemClock
from ledger.queries.balances import Balance
from ledger.queries.lake import TableRows
from load.samples import sample_names
from load.samples.adyen import AdyenItem, adyen_notification
from load.samples.standardwebhooks import standard_event
from load.samples.stripe import stripe_event
from providers.port import Request
from providers.registry import build_adapters
from providers.settings import ProvidersSettings
from stack.endpoints import Endpoints, write_endpoints


def payhook(*words: str, stdin: bytes | None = None) -> Result:
    return CliRunner().invoke(main, words, input=stdin)


class RememberingReceiver(http.server.BaseHTTPRequestHandler):
    """Takes whatever is posted, and remembers it."""

    posted: list[tuple[str, bytes, list[tuple[bytes, bytes]]]]
    status = 200

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        headers = [(name.lower().encode(), value.encode()) for name, value in self.headers.items()]
        type(self).posted.append((self.path, body, headers))
        self.send_response(type(self).status)
        if len(type(self).posted) > 1:
            self.send_header("Idempotent-Replayed", "true")
        self.end_headers()
        self.wfile.write(b'{"status":"accepted"}')

    def log_message(self, *_: object) -> None:
        """Silence on the terminal."""


@pytest.fixture
def receiver(tmp_path: Path) -> Iterator[type[RememberingReceiver]]:
    """A stack's data folder whose receiver takes whatever is posted."""
    handler = type("Fresh", (RememberingReceiver,), {"posted": []})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    url = f"http://127.0.0.1:{server.server_port}"
    write_endpoints(tmp_path, Endpoints(url, url, "127.0.0.1:1", "redis://127.0.0.1:1/0", str(tmp_path / "j"), {}))
    (tmp_path / "secrets").mkdir()
    for name, adapter in build_adapters(ProvidersSettings()).items():
        (tmp_path / "secrets" / name).write_text(f"{adapter.new_secret()}\n{adapter.new_secret()}\n")
    yield handler
    server.shutdown()
    thread.join()
    server.server_close()


def test_status_of_nothing_is_no_and_tells_how_to_start(tmp_path: Path) -> None:
    said = payhook("status", "--data", str(tmp_path))
    assert said.exit_code == 1
    assert "payhook up --detach" in said.output
    as_json = payhook("status", "--json", "--data", str(tmp_path))
    assert as_json.exit_code == 1
    assert json.loads(as_json.output) == {"up": False, "ready": False}


def test_down_of_nothing_is_no_error(tmp_path: Path) -> None:
    said = payhook("down", "--data", str(tmp_path))
    assert (said.exit_code, said.output) == (0, "nothing was running\n")


@pytest.mark.parametrize("words", [["send", "-", "--provider", "stripe"], ["verify"], ["dlq", "replay", "1"]])
def test_without_a_stack_a_command_says_so_in_one_sentence(words: list[str], tmp_path: Path) -> None:
    said = payhook(*words, "--data", str(tmp_path))
    assert said.exit_code == (2 if words == ["verify"] else 1)
    assert len(said.output.splitlines()) == 1
    assert "Traceback" not in said.output


def test_a_wrong_setting_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PAYHOOK_TOPICS__REPLICATION", "many")
    said = payhook("status")
    assert said.exit_code == 1
    assert said.output.startswith("payhook: setting topics.replication (PAYHOOK_TOPICS__REPLICATION): ")


def test_a_full_disk_is_one_sentence() -> None:
    @click.command
    @with_place
    def writing(_place: Place) -> None:
        Path("/dev/full").write_text("x", "utf-8")

    said = CliRunner().invoke(writing)
    assert said.exit_code == 1
    assert said.stderr == "payhook: No space left on device. Make room, then run the command again\n"


@pytest.mark.parametrize(
    ("does", "sentence"),
    [
        (lambda: Path("gone/lost.json").write_text("x", "utf-8"), "gone/lost.json: No such file or directory"),
        (lambda: b"\xff".decode("utf-8"), "the input isn't UTF-8: "),
        (lambda: "\udcff".encode("utf-8"), "the input isn't UTF-8: "),
    ],
    ids=["a folder that is missing", "bytes", "a word"],
)
def test_what_a_command_can_not_read_or_write_is_one_sentence(does: Callable[[], object], sentence: str) -> None:
    @click.command
    @with_place
    def doing(_place: Place) -> None:
        does()

    said = CliRunner().invoke(doing)
    assert (said.exit_code, said.stderr.count("\n")) == (1, 1)
    assert said.stderr.startswith(f"payhook: {sentence}")


@pytest.mark.parametrize("provider", ["stripe", "adyen", "standardwebhooks"])
def test_send_signs_with_the_newest_secret_so_that_the_provider_s_check_passes(
    provider: str, receiver: type[RememberingReceiver], tmp_path: Path
) -> None:
    body = _body(provider)
    (tmp_path / "event.json").write_bytes(body)
    said = payhook("send", str(tmp_path / "event.json"), "--provider", provider, "--data", str(tmp_path))
    assert (said.exit_code, said.output) == (0, '200 {"status":"accepted"}\n')
    [(path, posted, headers)] = receiver.posted
    assert path == f"/webhooks/{provider}"
    secrets = (tmp_path / "secrets" / provider).read_text().split()
    adapter = build_adapters(ProvidersSettings())[provider]
    assert adapter.verify(Request(posted, headers), secrets, SystemClock().now()) == 0


@pytest.mark.parametrize("name", sample_names(build_adapters(ProvidersSettings())))
def test_a_sample_is_a_new_signed_event_of_its_type_each_time(
    name: str, receiver: type[RememberingReceiver], tmp_path: Path
) -> None:
    provider, _, event_type = name.partition(":")
    adapter = build_adapters(ProvidersSettings())[provider]
    keys = set()
    for number in range(2):
        said = payhook("send", "--sample", name, "--data", str(tmp_path))
        assert said.exit_code == 0, said.output
        path, body, headers = receiver.posted[number]
        assert path == f"/webhooks/{provider}"
        secrets = (tmp_path / "secrets" / provider).read_text().split()
        adapter.verify(Request(body, headers), secrets, SystemClock().now())
        # A lost dispute's notification tells its withdrawal too, as an event of its own.
        *_, event = adapter.events(Request(body, headers), "live")
        assert event.event_type == event_type
        assert (event.fact_key is None) is (event_type == "customer.created"), "each other one moves money"
        keys.add(event.event_key)
    assert len(keys) == 2


def test_samples_are_listed_and_an_unknown_one_names_them(receiver: type[RememberingReceiver], tmp_path: Path) -> None:
    listed = payhook("send", "--samples", "--data", str(tmp_path)).output.splitlines()
    assert "stripe:charge.succeeded" in listed
    said = payhook("send", "--sample", "stripe:charge.succeded", "--data", str(tmp_path))
    assert said.exit_code == 1
    expected = f"payhook: there is no sample 'stripe:charge.succeded'; there are {', '.join(listed)}\n"
    assert (said.output, receiver.posted) == (expected, [])


@pytest.mark.parametrize(
    "words", [[], ["--provider", "stripe"], ["-"], ["-", "--provider", "stripe", "--sample", "stripe:charge.succeeded"]]
)
def test_a_file_with_its_provider_or_a_sample_is_wanted(words: list[str], tmp_path: Path) -> None:
    said = payhook("send", *words, "--data", str(tmp_path), stdin=b"{}")
    assert (said.exit_code, "--samples lists them" in said.output) == (2, True)


def test_send_says_when_the_receiver_knew_the_event_already(
    receiver: type[RememberingReceiver], tmp_path: Path
) -> None:
    said = payhook("send", "-", "--provider", "stripe", "--times", "2", "--data", str(tmp_path), stdin=_body("stripe"))
    assert said.exit_code == 0
    assert said.output.splitlines()[1].endswith("(a redelivery: nothing new happens)")
    assert receiver.posted[0] == receiver.posted[1]


def test_send_fails_when_the_receiver_refuses(receiver: type[RememberingReceiver], tmp_path: Path) -> None:
    receiver.status = 503
    said = payhook("send", "-", "--provider", "stripe", "--data", str(tmp_path), stdin=_body("stripe"))
    assert said.exit_code == 1
    assert said.output.startswith("503 ")


def test_send_names_the_providers_when_it_does_not_know_one(
    receiver: type[RememberingReceiver], tmp_path: Path
) -> None:
    said = payhook("send", "-", "--provider", "acme", "--data", str(tmp_path), stdin=b"{}")
    assert said.exit_code == 1
    known = ", ".join(sorted(build_adapters(ProvidersSettings())))
    assert said.output == f"payhook: no provider 'acme'; there are {known}\n"


def test_an_empty_ledger_and_queue_are_no_errors(tmp_path: Path) -> None:
    assert payhook("ledger", "balances", "--data", str(tmp_path)).output == "nothing has been booked yet\n"
    assert payhook("dlq", "list", "--data", str(tmp_path)).output == "no events match\n"
    listed = json.loads(payhook("dlq", "list", "--json", "--data", str(tmp_path)).output)
    assert listed == {"items": [], "next": None, "total": 0, "seq": 0}
    assert json.loads(payhook("ledger", "balances", "--json", "--data", str(tmp_path)).output) == []


def _body(provider: str) -> bytes:
    now = SystemClock().now()
    if provider == "stripe":
        return stripe_event(
            "evt_1", "charge.succeeded", payment="pi_1", account="", amount_minor=5, currency="EUR", created=now
        )
    if provider == "adyen":
        return adyen_notification([AdyenItem("psp-2", "psp-1", "Shop", "order-1", "CAPTURE", 5, "EUR", now)])
    return standard_event(
        "payment.captured", payment="p_1", account="a", amount_minor=5, currency="EUR", occurred_at=now
    )


class TestTestTraffic:
    @pytest.fixture(autouse=True)
    def config(self, tmp_path: Path) -> None:
        (tmp_path / "payhook.toml").write_text(
            "[ingest]\ntest_traffic = true\n"
            '[ingest.endpoints."adyen/sandbox"]\nmode = "test"\n[ingest.endpoints."stripe/eu"]\nzone = "eu"\n'
        )

    def test_send_posts_to_the_providers_test_endpoint_with_its_own_secret(
        self, receiver: type[RememberingReceiver], tmp_path: Path
    ) -> None:
        adapter = build_adapters(ProvidersSettings())["adyen"]
        secret = adapter.new_secret()
        (tmp_path / "secrets" / "adyen.sandbox").write_text(secret)
        said = payhook("send", "-", "--provider", "adyen", "--test", "--data", str(tmp_path), stdin=_body("adyen"))
        assert said.exit_code == 0, said.output
        [(path, posted, headers)] = receiver.posted
        assert path == "/webhooks/adyen/sandbox"
        assert adapter.verify(Request(posted, headers), [secret], SystemClock().now()) == 0

    @pytest.mark.parametrize("words", [["stripe"], ["stripe", "--endpoint", "eu"], ["adyen", "--endpoint", "live"]])
    def test_send_posts_no_test_to_an_endpoint_that_would_take_it_for_live(
        self, words: list[str], receiver: type[RememberingReceiver], tmp_path: Path
    ) -> None:
        body = _body(words[0])
        said = payhook("send", "-", "--provider", *words, "--test", "--data", str(tmp_path), stdin=body)
        assert (said.exit_code, receiver.posted) == (1, [])
        assert "has 0 test endpoints" in said.output

    def test_ledger_and_queue_are_those_of_the_mode_that_is_asked_for(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        asked: list[str] = []

        def balances(postings: Sequence[TableRows], *_: object) -> list[Balance]:
            asked.extend(one.path for one in postings)
            return []

        monkeypatch.setattr("cli.ledger_commands.read_balances", balances)
        for flags in ([], ["--test"]):
            payhook("ledger", "balances", *flags, "--data", str(tmp_path))
        assert asked == [str(tmp_path / "lake" / name) for name in ("postings", "postings-test")]
        for words in (["ledger", "event", "k"], ["dlq", "list"], ["dlq", "show", "1"], ["dlq", "replay", "1"]):
            for flags in ([], ["--test"]):
                assert "No such option" not in payhook(*words, *flags, "--data", str(tmp_path)).output

    @pytest.mark.parametrize("up", ["live", "test"])
    def test_status_is_of_the_traffic_that_is_asked_for(
        self, up: str, receiver: type[RememberingReceiver], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        sides = {mode: {"ready": mode == up, "processor": {"seq": f"{mode} seq"}} for mode in ("live", "test")}
        monkeypatch.setattr("cli.status_command._ask", lambda _: {**sides["live"], "test": sides["test"]})
        live, test = (payhook("status", *flags, "--data", str(tmp_path)) for flags in ([], ["--test"]))
        assert (live.exit_code, test.exit_code) == ((0, 1) if up == "live" else (1, 0))
        assert "live seq" in live.output
        assert "test seq" not in live.output
        assert "test seq" in test.output

    @pytest.mark.parametrize(
        ("stream", "reported"),
        [
            ({"ready": True, "state": "running", "restarts": 0}, "running"),
            ({"ready": True, "state": "off", "why": "nobody is told"}, r"off \(nobody is told\)"),
            (
                {"ready": False, "state": "failed", "restarts": 2, "last_failure": "LookupError: gone"},
                r"failed \(LookupError: gone\), begun again 2 times",
            ),
            ({"ready": False, "state": "running", "blocked": "disk full"}, r"not ready \(disk full\)"),
            ({"ready": False}, "not started"),
        ],
    )
    def test_status_has_a_line_for_each_stream(
        self,
        stream: dict[str, object],
        reported: str,
        receiver: type[RememberingReceiver],
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        said = {"ready": True, "processor": {}, "streams": {"greet": stream}}
        monkeypatch.setattr("cli.status_command._ask", lambda _: said)
        assert re.search(
            rf"stream greet +{reported} *$", payhook("status", "--data", str(tmp_path)).output, re.MULTILINE
        )

    def test_status_says_where_no_test_traffic_is_taken(
        self, receiver: type[RememberingReceiver], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("cli.status_command._ask", lambda _: {"ready": True})
        said = payhook("status", "--test", "--data", str(tmp_path))
        assert said.exit_code == 1
        assert "ingest.test_traffic is off" in said.output

    @pytest.mark.parametrize("words", [["list"], ["stats"], ["groups"]])
    def test_dead_events_are_those_of_the_mode_and_stream_that_are_asked_for(
        self, words: list[str], tmp_path: Path
    ) -> None:
        """Each stream has a list of its own, and only those that were looked at have one."""
        for flags in ([], ["--test"], ["--stream", "notify", "--test"]):
            assert payhook("dlq", *words, *flags, "--data", str(tmp_path)).exit_code == 0
        made = sorted(path.name for path in (tmp_path / "console").iterdir())
        assert made == ["ledger", "ledger-test", "notify-test"]

    def test_a_stream_that_is_not_there_is_said_plainly(self, tmp_path: Path) -> None:
        wrong = payhook("dlq", "list", "--stream", "nobody", "--data", str(tmp_path))
        assert wrong.exit_code == 2
        assert "there is no stream nobody: choose one of ledger, notify" in wrong.output

    def test_verify_looks_at_the_test_journal(
        self, receiver: type[RememberingReceiver], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("stack.maintenance.verification.spark_jars", lambda _: [])
        said = payhook("verify", "--test", "--data", str(tmp_path))
        assert said.exit_code == 2
        assert f"there is no journal at {tmp_path}/lake/journal/ledger-test" in said.output
