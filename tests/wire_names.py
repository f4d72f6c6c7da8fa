"""The names that others rely on: columns, headers, settings, commands, metrics, alerts, the API.

``python -m tests.wire_names`` prints them; tests/unit/wire_names.txt holds them. A new name, and one that is given up
on purpose, is written there by that command, and CHANGELOG.md says so.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Any

import click
import pyarrow as pa

from alerts.rules import make_rules
from alerts.settings import AlertsSettings
from cli.main import main
from core.decision import Decision, ErrorKind
from core.event import Dedupe, Event, to_headers
from core.metrics import CATALOGUE
from core.money import Movement
from core.record_keys import MAC_HEADER
from dlq.record import build_record
from journal.bodies import BODIES_SCHEMA
from journal.schema import JOURNAL_SCHEMA, JournalRow
from ledger.catch_ups import CATCH_UPS_SCHEMA
from ledger.postings import POSTINGS_SCHEMA
from ledger.receipts import RECEIPTS_SCHEMA
from ledger.reconciliations import DIFFERENCES_SCHEMA, RUNS_SCHEMA
from ledger.redactions import REDACTIONS_SCHEMA
from operations.audit_log import AUDIT_SCHEMA
from operations.command import ACTIONS, RUN_ACTS
from providers.registry import build_adapters
from providers.settings import ProvidersSettings
from tests.receiver_openapi import describe
from tests.settings_page import setting_names
from tests.unit.console.api_bench import ApiBench

AT = datetime(2026, 1, 1, tzinfo=UTC)
TABLES: Mapping[str, pa.Schema] = {
    "acts": AUDIT_SCHEMA,
    "bodies": BODIES_SCHEMA,
    "catch-up": CATCH_UPS_SCHEMA,
    "journal": JOURNAL_SCHEMA,
    "postings": POSTINGS_SCHEMA,
    "receipts": RECEIPTS_SCHEMA,
    "reconciliation-differences": DIFFERENCES_SCHEMA,
    "reconciliation-runs": RUNS_SCHEMA,
    "redactions": REDACTIONS_SCHEMA,
}
WORDS: tuple[type[StrEnum], ...] = (Decision, ErrorKind, Movement, Dedupe)


def wire_names() -> Iterator[str]:
    """One name a line, sorted within its kind."""
    for kind, names in (
        ("alert", make_rules(AlertsSettings())),
        ("api", api_names()),
        ("column", (f"{table}.{field.name} {field.type}" for table, schema in TABLES.items() for field in schema)),
        ("command", command_names(main, "payhook")),
        ("dead letter header", dead_letter_headers()),
        ("event header", event_headers()),
        ("metric", (f"{entry.exposed_name} {','.join(entry.labels)}".rstrip() for entry in CATALOGUE.values())),
        ("order", ACTIONS.union(RUN_ACTS)),
        ("receiver", described_names(describe(build_adapters(ProvidersSettings())))),
        ("setting", setting_names()),
        *((words.__name__.lower(), (word.value for word in words)) for words in WORDS),
    ):
        yield from (f"{kind}: {name}" for name in sorted(set(names)))


def command_names(command: click.Command, path: str) -> Iterator[str]:
    """The command with each of its options, then those below it."""
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None
            yield from command_names(below, f"{path} {name}")
        return
    yield path
    for parameter in command.params:
        names = parameter.opts if isinstance(parameter, click.Option) else [f"<{parameter.name}>"]
        yield f"{path} {'/'.join(sorted([*names, *parameter.secondary_opts]))}"


def event_headers() -> list[str]:
    """Of an event that has each of its facts."""
    every: dict[str, Any] = {field.name: "x" for field in fields(Event)}
    event = Event(**every | {"occurred_at": AT, "body": b"{}", "content_version": 1})
    return [name for name, _ in to_headers(event, AT, Dedupe.CLAIMED, "x")] + [MAC_HEADER]


def dead_letter_headers() -> list[str]:
    """Payhook's and KIP-1191's, of a row that has each of its columns."""
    examples = {"string": "x", "int64": 1, "int32": 1, "bool": True, "double": 1.0}
    row: dict[str, Any] = {field.name: examples.get(str(field.type), AT) for field in JOURNAL_SCHEMA}
    named = {"decision": Decision.DEAD, "error_kind": ErrorKind.NRE, "headers": "{}", "postings": ()}
    known = {field.name for field in fields(JournalRow)}
    record = build_record(JournalRow(**row | {name: named[name] for name in named if name in known}), b"", "group")
    return [name for name, _ in record.headers]


def api_names() -> list[str]:
    """The management API's operations and the fields of what it takes and answers."""
    with tempfile.TemporaryDirectory() as folder:
        document = ApiBench(Path(folder)).request("GET", "/openapi.json").json()
    return list(described_names(document))


def described_names(document: Mapping[str, Any]) -> Iterator[str]:
    """What an OpenAPI document names."""
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            yield f"{method.upper()} {path}"
            yield from (f"{method.upper()} {path} ?{asked['name']}" for asked in operation.get("parameters", ()))
    for schema, described in document["components"]["schemas"].items():
        yield from (f"{schema}.{name}" for name in properties(described))


def properties(described: Mapping[str, Any]) -> Iterable[str]:
    names: Iterable[str] = described.get("properties", ())
    return names


if __name__ == "__main__":
    sys.stdout.writelines(f"{name}\n" for name in wire_names())
