"""What a provider reported twice or in two ways, as the engine decided it and as finance can send it on."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from cli.main import main
from core.event import Dedupe, to_headers
from core.layout import Layout
from journal import open_item
from journal.bodies import BodyStore
from journal.writer import JournalWriter
from ledger import provider_bugs as report
from ledger.provider_bugs import ProviderBug, find_provider_bugs
from load.samples.stripe import stripe_event
from providers import Adapter, ProvidersSettings, Request, build_adapters
from tests.unit.processor.fakes import ignored
from tests.unit.processor.harness import CONTROL, EVENTS, NOW, Engine

ADAPTERS = build_adapters(ProvidersSettings())
ACCOUNT = "acct_1"


class StripeEngine:
    """Stripe tells, the engine decides; `written` puts its rows and bodies where a stack keeps them."""

    def __init__(self, folder: Path) -> None:
        (folder / "engine").mkdir()
        self.engine = Engine(folder / "engine")
        self.engine.adapters["stripe"] = ADAPTERS["stripe"]
        self.data = folder / "data"
        lake = Layout(self.data).ledger()
        self.journal, self.bodies = str(lake.journal), str(lake.bodies_table)

    def report(self, event_id: str, refund: str, amount_minor: int = 500, adapter: Adapter = ADAPTERS["stripe"]) -> str:
        """One refund, under an event id; a minute later than what was reported before."""
        self.engine.clock.advance(60)
        now = self.engine.clock.now()
        body = stripe_event(
            event_id,
            "refund.created",
            payment=f"pi_{event_id}",
            account=ACCOUNT,
            amount_minor=amount_minor,
            currency="EUR",
            created=NOW,
            object_id=refund,
        )
        (event,) = adapter.events(Request(body, []), "live")
        self.engine.send(EVENTS, event.body, to_headers(event, now, Dedupe.CLAIMED))
        return event.event_key

    def written(self, *, with_bodies: bool = True) -> None:
        writer = JournalWriter.create_or_open(self.journal, "ledger")
        writer.begin_epoch({EVENTS: {0: 0}, CONTROL: {0: 0}})
        rows = [replace(row) for row in self.engine.journal.rows]
        writer.commit(rows, self.engine.journal.marks, 0)
        if with_bodies:
            BodyStore(self.bodies).append(list(self.engine.bodies.by_hash.items()))

    def bugs(self, **narrowed: object) -> list[ProviderBug]:
        return find_provider_bugs(self.journal, self.bodies, ADAPTERS, **narrowed)  # type: ignore[arg-type]


@pytest.fixture
def world(tmp_path: Path) -> StripeEngine:
    return StripeEngine(tmp_path)


@pytest.fixture(scope="module")
def reported(tmp_path_factory: pytest.TempPathFactory) -> StripeEngine:
    """One of each kind, among events that are in order. It is only read."""
    world = StripeEngine(tmp_path_factory.mktemp("reported"))
    world.report("evt_1", "re_1", 500)
    world.report("evt_2", "re_1", 500)
    world.report("evt_3", "re_2", 700)
    world.engine.batch()
    world.report("evt_4", "re_2", 799)
    world.report("evt_3", "re_2", 701)
    world.report("evt_1", "re_1", 500)
    world.report("evt_5", "re_3", 100)
    world.engine.batch()
    world.written()
    return world


def seen(bugs: list[ProviderBug]) -> list[tuple[object, ...]]:
    return [
        (bug.kind, bug.first and (bug.first.seq, bug.first.amount_minor), (bug.again.seq, bug.again.amount_minor))
        for bug in bugs
    ]


@pytest.mark.row("A13")
def test_each_case_is_reported_with_both_reports_and_what_is_in_order_is_not(reported: StripeEngine) -> None:
    assert seen(reported.bugs()) == [
        ("fact_repeated", (1, 500), (2, 500)),
        ("fact_conflict", (3, 700), (4, 799)),
        ("event_conflict", (3, 700), (5, 701)),
    ]


def test_a_report_says_when_it_came_where_it_is_and_what_it_said(reported: StripeEngine) -> None:
    bug = reported.bugs()[1]
    assert (bug.provider, bug.fact_key, bug.seqs_apart) == ("stripe", "stripe:re_2:refund", 1)
    assert bug.first is not None
    assert bug.first.event_key == "stripe:evt_3:refund.created"
    assert bug.again.event_key == "stripe:evt_4:refund.created"
    assert bug.first.received_at == NOW + timedelta(minutes=3)
    assert bug.again.received_at == NOW + timedelta(minutes=4)
    assert (bug.again.movement, bug.again.currency, bug.again.account) == ("refund", "EUR", ACCOUNT)
    assert bug.first.fact_sha256 != bug.again.fact_sha256
    assert {len(bug.again.content_sha256 or ""), len(bug.again.body_sha256 or "")} == {64}


def test_it_is_narrowed_to_a_provider_and_to_what_came_since(reported: StripeEngine) -> None:
    assert reported.bugs(provider="adyen") == []
    assert len(reported.bugs(provider="stripe")) == 3
    since = NOW + timedelta(minutes=4)
    assert [bug.kind for bug in reported.bugs(since=since)] == ["fact_conflict", "event_conflict"]
    assert [bug.kind for bug in reported.bugs(since=since + timedelta(microseconds=1))] == ["event_conflict"]


def test_a_replayed_conflict_is_reported_once(world: StripeEngine) -> None:
    world.report("evt_1", "re_1", 500)
    world.report("evt_2", "re_1", 501)
    world.engine.batch()
    world.engine.command(2, 2)
    world.engine.batch()
    world.engine.advance(0)
    assert world.engine.decisions("stripe:evt_2:refund.created") == ["dead", "replayed", "dead"]
    world.written()
    assert seen(world.bugs()) == [("fact_conflict", (1, 500), (2, 501))]


def test_without_the_bodies_the_hashes_still_tell(world: StripeEngine) -> None:
    world.report("evt_1", "re_1", 500)
    world.report("evt_2", "re_1", 501)
    world.engine.batch()
    world.written(with_bodies=False)
    assert seen(world.bugs()) == [("fact_conflict", (1, None), (2, None))]
    (bug,) = world.bugs()
    assert bug.first is not None
    assert bug.first.fact_sha256 != bug.again.fact_sha256


def test_there_is_nothing_to_tell_before_the_first_start(world: StripeEngine) -> None:
    assert world.bugs() == []


def test_the_engines_words_for_a_conflict_are_the_reports() -> None:
    assert (report._FACT_CONFLICT, report._EVENT_CONFLICT) == (open_item.FACT_CONFLICT_CLASS, open_item.CONFLICT_CLASS)


@pytest.fixture
def payhook(reported: StripeEngine, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    monkeypatch.chdir(reported.data.parent)
    monkeypatch.setenv("COLUMNS", "220")

    def invoke(*words: str) -> Result:
        said = CliRunner().invoke(main, ["ledger", "provider-bugs", "--data", str(reported.data), *words])
        assert said.exit_code == 0, said.output
        return said

    return invoke


def test_the_command_shows_each_case_by_provider_and_kind(payhook: Callable[..., Result]) -> None:
    said = payhook().output
    assert "stripe: one movement of money under several event ids (1)" in said
    assert "stripe: one event id with other content (1)" in said
    for text in ("stripe:re_2:refund", "stripe:evt_4:refund.created", "7.99 EUR", "2026-01-31 12:04:00"):
        assert text in said
    assert "evt_5" not in said


def test_the_commands_json_is_stable_and_whole(payhook: Callable[..., Result]) -> None:
    reported = json.loads(payhook("--json", "--since", "2026-01-31").output)
    assert reported["since"] == "2026-01-31T00:00:00.000000Z"
    assert reported["counts"] == {
        "stripe": {"fact_repeated": 1, "fact_conflict": 1, "event_conflict": 1, "event_repeated": 0}
    }
    conflict = reported["bugs"][1]
    assert sorted(conflict) == ["again", "fact_key", "first", "kind", "provider", "seqs_apart", "stream"]
    assert conflict["again"]["amount_minor"] == 799
    assert conflict["first"]["received_at"] == "2026-01-31T12:03:00.000000Z"
    assert payhook("--json", "--provider", "adyen").output == payhook("--json", "--provider", "adyen").output
    assert json.loads(payhook("--json", "--since", "2026-02-01").output)["bugs"] == []


def test_the_commands_csv_has_a_line_a_case_and_no_formula(
    payhook: Callable[..., Result], reported: StripeEngine, tmp_path: Path
) -> None:
    lines = list(csv.DictReader(io.StringIO(payhook("--csv").output)))
    assert [line["kind"] for line in lines] == ["fact_repeated", "fact_conflict", "event_conflict"]
    assert (lines[1]["first_amount_minor"], lines[1]["again_amount_minor"]) == ("700", "799")
    assert lines[1]["again_received_at"] == datetime(2026, 1, 31, 12, 4, tzinfo=UTC).isoformat()


def test_json_and_csv_at_once_are_refused(reported: StripeEngine) -> None:
    said = CliRunner().invoke(main, ["ledger", "provider-bugs", "--data", str(reported.data), "--json", "--csv"])
    assert said.exit_code == 2


def test_a_text_that_a_spreadsheet_would_calculate_stays_a_text(reported: StripeEngine) -> None:
    from cli.provider_bugs import csv_of

    (bug, *_), texts = reported.bugs(), ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1"]
    written = csv_of([replace(bug, again=replace(bug.again, account=text)) for text in texts])
    lines = csv.DictReader(io.StringIO(written, newline=""))
    assert [line["again_account"] for line in lines] == [f"'{text}" for text in texts]


def told(world: StripeEngine, event_id: str, customer: str, email: str, *, minutes: int = 0) -> str:
    """An event of Stripe's that moves no money."""
    world.engine.clock.advance(60)
    created = int((NOW + timedelta(minutes=minutes)).timestamp())
    document = {
        "id": event_id,
        "object": "event",
        "type": "customer.updated",
        "created": created,
        "livemode": True,
        "account": ACCOUNT,
        "data": {"object": {"id": customer, "object": "customer", "email": email}},
    }
    (event,) = ADAPTERS["stripe"].events(Request(json.dumps(document).encode(), []), "live")
    assert event.fact_key is None
    world.engine.send(EVENTS, event.body, to_headers(event, world.engine.clock.now(), Dedupe.CLAIMED))
    world.engine.handler.script[event.event_key] = ignored
    return event.event_key


def test_one_event_without_money_under_two_ids_is_found_by_type_object_and_content(world: StripeEngine) -> None:
    first = told(world, "evt_1", "cus_1", "a@shop.example")
    again = told(world, "evt_2", "cus_1", "a@shop.example", minutes=1)
    told(world, "evt_3", "cus_1", "b@shop.example", minutes=2)
    told(world, "evt_4", "cus_2", "a@shop.example", minutes=3)
    told(world, "evt_5", "cus_1", "a@shop.example", minutes=24 * 60)
    world.engine.batch()
    world.written()
    [bug] = world.bugs()
    assert bug.first is not None
    assert (bug.kind, bug.first.event_key, bug.again.event_key) == ("event_repeated", first, again)
    assert (bug.fact_key, bug.again.amount_minor) == (None, None)
    assert world.bugs(provider="adyen") == []
    printed = CliRunner().invoke(main, ["ledger", "provider-bugs", "--data", str(world.data)]).output
    assert "one event without money under several event ids (1)" in printed


def test_without_their_bodies_events_without_money_are_not_compared(world: StripeEngine) -> None:
    told(world, "evt_1", "cus_1", "a@shop.example")
    told(world, "evt_2", "cus_1", "a@shop.example")
    world.engine.batch()
    world.written(with_bodies=False)
    assert world.bugs() == []
