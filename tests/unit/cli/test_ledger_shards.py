"""`payhook ledger` over two shards: each row is named with its shard, and what is ordered goes to the entity's."""

from __future__ import annotations

import csv
import json
from datetime import timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from cli.main import main
from cli.place import Place
from console.bookings import BookingService
from core.clock import ManualClock
from core.decision import Decision
from core.layout import Layout
from core.money import Money, Movement
from core.routing import Shard
from core.settings import KafkaSettings
from core.work import Posting
from journal.bodies import BodyStore
from journal.reader import lineage_of
from journal.target import ItemTarget
from ledger.reversals import ProposalUnknown
from operations.audit_log import AuditLog
from operations.command import PROPOSE_REVERSAL, Command, new_command_id, propose_entry
from operations.commands import decode
from operations.entry import ManualEntry
from operations.orders import OrderSender
from operations.recorder import Recorder
from stack.data_folder import make_key
from tests.divided_ledger import CONTROL, MOVES, STAYS, DividedLedger, ShardLedger
from tests.small_ledger import START
from tests.unit.console.places import SentTo
from tests.unit.ledger.ignored_events import IgnoredLedger


@pytest.fixture(autouse=True)
def two_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PAYHOOK_PROCESSOR__SHARDS", "2")
    monkeypatch.setenv("PAYHOOK_KAFKA__EVENTS_PARTITIONS", "2")


@pytest.fixture
def divided(tmp_path: Path) -> DividedLedger:
    return DividedLedger.under(tmp_path)


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> SentTo:
    kafka = SentTo()
    monkeypatch.setattr("cli.acting.open_producer", lambda *_: kafka)
    monkeypatch.setattr(Place, "kafka", lambda _place: KafkaSettings())
    make_key(Layout(tmp_path / "data").record_keys)
    return kafka


def payhook(divided: DividedLedger, *words: str) -> Result:
    command = ["ledger", *words, "--data", str(divided.layout.root)]
    return CliRunner(env={"COLUMNS": "200"}).invoke(main, command)


@pytest.mark.parametrize(
    "words",
    [
        ["balances"],
        ["search"],
        ["export", "--format", "csv", "--out", "all.csv"],
        ["entity", f"stripe:acct:{STAYS[0]}"],
    ],
)
def test_with_another_number_of_shards_nothing_is_answered(
    divided: DividedLedger, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    """Sums of the first journal alone would balance too."""
    monkeypatch.setenv("PAYHOOK_PROCESSOR__SHARDS", "1")
    refused = payhook(divided, *words)
    assert refused.exit_code == 1
    assert "processor.shards is 1, and its journal is one of 2. Set it to 2" in " ".join(refused.output.split())


def test_balances_are_of_all_shards_and_up_to_a_row_of_one(divided: DividedLedger) -> None:
    found = {one["account"]: one["balance_minor"] for one in json.loads(payhook(divided, "balances", "--json").output)}
    assert found["provider:stripe:clearing"] == 2_500
    said = payhook(divided, "balances", "--seq", "ledger.1:3")
    assert (said.exit_code, "24.00" in said.output) == (0, True), said.output
    for named, why in (("ledger.9:3", "it has ledger, ledger.1"), ("x", "ledger.1:123 for another shard's")):
        wrong = payhook(divided, "balances", "--seq", named)
        assert (wrong.exit_code, why in " ".join(wrong.output.split())) == (2, True), wrong.output


def test_an_event_is_shown_with_the_names_of_its_rows(divided: DividedLedger) -> None:
    charge = divided.charged[MOVES[0]].event_key or ""
    said = payhook(divided, "event", charge)
    assert (said.exit_code, "row ledger.1:2: applied" in said.output) == (0, True), said.output
    [story] = json.loads(payhook(divided, "event", charge, "--json").output).values()
    assert (story["stream"], story["others"], [row["seq"] for row in story["rows"]]) == ("ledger.1", [], [2])
    assert "row ledger.1:4: applied" in payhook(divided, "event", "seq:ledger.1:4").output
    divided.shards[1].add(Movement.CAPTURE, payment=MOVES[2])
    divided.shards[1].commit()
    wrong = payhook(divided, "event", "seq:5")
    assert (wrong.exit_code, "say which shard's it is: ledger.1:5" in wrong.output) == (1, True)


def test_an_entity_and_a_search_name_rows_too(divided: DividedLedger) -> None:
    said = payhook(divided, "entity", f"stripe:acct:{MOVES[0]}")
    assert (said.exit_code, "ledger.1:3" in said.output) == (0, True), said.output
    hits = json.loads(payhook(divided, "search", "--json").output)
    assert {(hit["stream"], hit["seq"]) for hit in hits} == {
        *(("ledger", seq) for seq in (1, 2, 3, 4)),
        *(("ledger.1", seq) for seq in (3, 4)),
    }
    assert "ledger.1:4" in payhook(divided, "search").output


def test_an_export_names_each_rows_stream(divided: DividedLedger, tmp_path: Path) -> None:
    out = tmp_path / "out.csv"
    said = payhook(divided, "export", "--format", "csv", "--out", str(out))
    assert (said.exit_code, "12 rows of the postings" in said.output) == (0, True), said.output
    head, *rows = csv.reader(out.read_text("utf-8").splitlines())
    assert head[:3] == ["stream", "seq", "line"]
    assert [row[:2] for row in rows[::2]] == [
        *(["ledger", str(seq)] for seq in (1, 2, 3, 4)),
        *(["ledger.1", str(seq)] for seq in (3, 4)),
    ]


def test_a_reversal_is_proposed_to_each_entitys_shard(divided: DividedLedger, sent: SentTo) -> None:
    keys = [divided.charged[payment].event_key or "" for payment in (STAYS[0], MOVES[0])]
    assert "nothing was sent" in payhook(divided, "reverse", *keys, "--reason", "wrong", "--dry-run").output
    said = payhook(divided, "reverse", *keys, "--reason", "wrong")
    assert said.exit_code == 0, said.output
    commands = [decode(value) for value in sent.values]
    assert [(one.stream, one.lineage, [target.item_seq for target in one.targets]) for one in commands] == [
        (shard.places.stream, lineage_of(shard.journal), [seq])
        for shard, seq in zip(divided.shards, (1, 2), strict=True)
    ]
    assert all(one.command_id in said.output for one in commands)


def test_an_entry_goes_to_its_entitys_shard(divided: DividedLedger, sent: SentTo, tmp_path: Path) -> None:
    (tmp_path / "letter").write_bytes(b"from the bank")
    lines = ("--debit", "merchant:m-1:dispute_losses", "5", "EUR", "--credit", "merchant:m-1:disputes", "5", "EUR")
    words = ("enter", f"stripe:acct:{MOVES[0]}", *lines, "--evidence", str(tmp_path / "letter"), "--reason", "lost")
    assert payhook(divided, *words).exit_code == 0
    [command] = [decode(value) for value in sent.values]
    assert (command.stream, command.lineage) == ("ledger.1", lineage_of(divided.shards[1].journal))


def entry(payment: str) -> ManualEntry:
    lines = (
        Posting("merchant:m-1:dispute_losses", "debit", Money(5, "EUR")),
        Posting("merchant:m-1:disputes", "credit", Money(5, "EUR")),
    )
    return ManualEntry(f"stripe:acct:{payment}", START, "ab" * 32, lines)


@pytest.fixture
def proposed(tmp_path: Path) -> tuple[DividedLedger, dict[str, Command]]:
    """Proposed before the division for an entity of each shard, and after it for one of the second shard."""
    before = ShardLedger(tmp_path / "data")
    charged = {payment: before.add(Movement.CAPTURE, payment=payment) for payment in (STAYS[0], MOVES[0])}
    before.commit()
    lineage, commands = lineage_of(before.journal), {}
    for name, payment in (("stays", STAYS[0]), ("moves", MOVES[0])):
        commands[name] = propose_entry("ledger", lineage, entry(payment), "ada", "lost", START)
        before.given(commands[name], Decision.RESOLVED)
    target = ItemTarget.of_row(before.rows[1])
    commands["reversal"] = Command.with_new_id("ledger", lineage, PROPOSE_REVERSAL, [target], "ada", "wrong", START)
    before.given(commands["reversal"], Decision.RESOLVED)
    before.commit()
    shards = before.split()
    commands["after"] = propose_entry("ledger.1", lineage_of(shards[1].journal), entry(MOVES[0]), "ada", "lost", START)
    shards[0].given(commands["after"], Decision.IGNORED, reason="for the stream ledger.1")
    shards[1].given(commands["after"], Decision.RESOLVED)
    for shard in shards:
        shard.commit()
    return DividedLedger(shards, before, charged), commands


def test_proposals_are_listed_once_and_those_of_moved_entities_wait_no_more(
    proposed: tuple[DividedLedger, dict[str, Command]],
) -> None:
    divided, commands = proposed
    found = {
        one["command_id"]: one["state"] for one in json.loads(payhook(divided, "proposals", "--all", "--json").output)
    }
    assert found == {
        commands["stays"].command_id: "waits",
        commands["moves"].command_id: "older than a split",
        commands["reversal"].command_id: "older than a split",
        commands["after"].command_id: "waits",
    }
    said = payhook(divided, "proposals")
    assert said.output.count("waits") == 2, said.output


def test_a_proposal_names_its_items_with_their_shard(divided: DividedLedger) -> None:
    """The first shard has other items of the same numbers."""
    _, meant = divided.proposed(PROPOSE_REVERSAL)
    [found] = json.loads(payhook(divided, "proposals", "--json").output)
    assert (found.get("stream"), found["items"]) == ("ledger.1", [meant.item_seq])
    said = payhook(divided, "proposals").output
    assert f"reversal of items ledger.1:{meant.item_seq}\n" in said, said


def test_an_approval_goes_to_the_shard_of_its_proposal(proposed: tuple[DividedLedger, dict[str, Command]]) -> None:
    divided, commands = proposed
    kafka, clock = SentTo(), ManualClock(START + timedelta(hours=1))
    acts = AuditLog(divided.layout.audit_log)
    orders = OrderSender(lambda: kafka, CONTROL, Recorder(acts, clock, "api"))
    service = BookingService(divided.ledger, CONTROL, orders, clock)
    for name in ("stays", "after"):
        service.approve(commands[name].command_id, "bob", "checked", new_command_id())
    assert [decode(value).stream for value in kafka.values] == ["ledger", "ledger.1"]
    for name in ("moves", "reversal"):
        with pytest.raises(ProposalUnknown, match="its entity belongs to another shard now"):
            service.approve(commands[name].command_id, "bob", "checked", new_command_id())
    with pytest.raises(ProposalUnknown, match="there is none"):
        service.approve("0" * 32, "bob", "checked", new_command_id())
    service.propose_entry(entry(MOVES[0]), "ada", "lost", new_command_id())
    given = decode(kafka.values[-1])
    assert (given.stream, given.lineage) == ("ledger.1", lineage_of(divided.shards[1].journal))
    assert {act.what for act in acts.read(10)} >= {f"ledger.1 proposal {commands['after'].command_id}"}


def test_a_body_that_both_shards_hold_is_removed_and_reported_once_each(divided: DividedLedger) -> None:
    charge = divided.charged[MOVES[0]]
    said = payhook(divided, "redact", charge.event_key or "", "--reason", "asked")
    assert said.exit_code == 0, said.output
    assert [line.split(")")[0] for line in said.output.splitlines()] == [
        f"body {charge.body_sha256} (row 2",
        f"body {charge.body_sha256} (row ledger.1:2",
    ]
    for shard in divided.shards:
        assert charge.body_sha256 not in BodyStore(shard.bodies).find_kept([charge.body_sha256 or ""])


class IgnoredOfShards(IgnoredLedger, ShardLedger):
    """Real events that were ignored, in a ledger that is divided then."""


def test_ignored_events_are_selected_of_each_entitys_shard_with_their_amounts(tmp_path: Path) -> None:
    before = IgnoredOfShards(tmp_path / "data")
    for number, shard in enumerate((Shard(0, 2), Shard(1, 2), Shard(1, 2)), 1):
        payment = next(
            one for one in (f"pi_{number}_{n}" for n in range(99)) if shard.has_entity(f"stripe:acct_1:{one}")
        )
        before.ignored(f"evt_{number}", payment=payment, object_id=f"re_{number}")
    before.write()
    divided = DividedLedger(before.split(), before, {})
    command = ["dlq", "select", "--state", "ignored", "--type", "refund.created", "--data", str(divided.layout.root)]
    said = CliRunner(env={"COLUMNS": "200"}).invoke(main, command)
    assert said.exit_code == 0, said.output
    assert [line for line in said.output.splitlines() if line.startswith("frozen")] == [
        "frozen as s1 of ledger: 1 items (7.00 EUR)",
        "frozen as s1 of ledger.1: 2 items (14.00 EUR)",
    ]
