"""The lake as files: maintain, redact and rebuild it, back it up and restore it, and try its storage."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console

from cli.acting import open_recorder, this_account
from cli.place import KEPT_TEXT, Place, with_place, with_place_of_mode
from cli.tables import PrintedTable
from core.clock import SystemClock, to_rfc3339
from core.errors import PayhookError
from core.location import LakeUrl, Location, is_url, location_of
from core.routing import row_name
from core.store import URL, WANTED
from stack.settings import prepare_store

if TYPE_CHECKING:
    from ledger.maintain.job import MaintenanceReport, TableReport
    from ledger.redactions import Redaction
    from stack.backup.make import BackupReport
    from stack.backup.restore import RestoreReport


UNITS = (("GB", 10**9), ("MB", 10**6), ("kB", 10**3))


@click.command()
@click.option("--dry-run", is_flag=True, help="Change nothing; show what would be done.")
@click.option("--json", "as_json", is_flag=True, help="Print the whole report as JSON.")
@with_place
def maintain(place: Place, dry_run: bool, as_json: bool) -> None:
    """Keep the lake quick to read: merge small files, write checkpoints, delete replaced files.

    Of every table: each work stream's journal, bodies and postings, receipts, redactions, reconciliations,
    catch-ups, the audit log; live and test. May run at any moment, on a busy stack too; the stack runs it by itself
    every `ledger.maintain.every_s`. One at a time: a second one says so and ends. Exit 1 if a table couldn't be
    maintained.
    """
    # Spark's modules take a second to load; no other command needs them.
    from stack.maintenance.job import run_once

    report = run_once(place.settings, dry_run=dry_run)
    if as_json:
        click.echo(report.as_json())
    else:
        _print_maintained(report)
    sys.exit(0 if report.ok else 1)


@click.command()
@click.argument("event_key", metavar="EVENT_KEY")
@click.option("--reason", type=KEPT_TEXT, required=True, help="The reason, kept on record.")
@with_place_of_mode
def redact(place: Place, event_key: str, reason: str) -> None:
    """Remove the raw body of one event for good; its hashes, keys and postings stay.

    Recorded first (`lake/redactions`), then removed: in the table and in every file on the disk. Refused while the
    event, or another one with the same body, is open. A body that came again since (with another event, from a
    backup) is removed again. Kafka keeps its copy until its retention ends (docs/finance.md). One person has
    `dlq.alone_redactions_max` bodies removed within 24 hours; what is more is done by another person, from an account
    of their own.
    """
    from ledger.maintain.redact import RedactionOrder
    from stack.maintenance.job import redact_event

    with open_recorder(place).record_act(this_account(), "redact", f"{place.mode} {event_key}", reason):
        redacted = redact_event(
            place.settings, place.ledger.first_place.stream, RedactionOrder(event_key, this_account(), reason)
        )
    for act in redacted.done:
        click.echo(f"{_describe_body(act)} is removed; ordered by {act.actor}")
    for act in redacted.left:
        click.echo(
            f"{_describe_body(act)} isn't removed yet: a file that may hold it is too new. The next maintenance "
            f"removes it; ordered by {act.actor}"
        )
    for act in redacted.earlier:
        ordered = f"ordered by {act.actor} at {to_rfc3339(act.at)}: {act.reason}"
        click.echo(f"{_describe_body(act)} was already removed, {ordered}")
    if redacted.lost:
        lost = ", ".join(redacted.lost)
        click.echo(f"these files of bodies are lost and may have held it: {lost}")
        click.echo("if you restore one of them, redact the event again")


def _describe_body(act: Redaction) -> str:
    return f"body {act.body_sha256} (row {row_name(act.stream, act.seq)})"


def _print_maintained(report: MaintenanceReport) -> None:
    console = Console(soft_wrap=True)
    if not report.tables:
        console.print("nothing has been decided yet: there is no table to maintain")
        return
    freed = "may leave the disk" if report.dry_run else "left the disk"
    names = ("files", "size", "log", freed, "seconds")
    title = "dry run: nothing was changed" if report.dry_run else ""
    rows = PrintedTable("table", *names, right=names, title=title)
    for table in report.tables:
        rows.add(*_format_cells(table, report.dry_run))
    rows.print()
    for table in report.tables:
        if table.bodies_dropped:
            fate = "to remove" if report.dry_run else "removed"
            console.print(
                f"{table.display_name}: bodies {fate} (past their retention, or redacted): {table.bodies_dropped:,}"
            )
        if table.problem:
            console.print(f"{table.display_name}: {table.problem}", markup=False)
    console.print(
        "all tables are maintained" if report.ok else "[bold red]some tables were not maintained[/]: see above"
    )


def _format_cells(table: TableReport, dry_run: bool) -> tuple[str, ...]:
    return (
        table.display_name,
        _change(f"{table.files_before:,}", f"{table.files_after:,}"),
        format_size(table.bytes_before)
        if dry_run
        else _change(format_size(table.bytes_before), format_size(table.bytes_after)),
        _change(f"{table.log_before:,}", f"{table.log_after:,}"),
        f"{table.freed_files:,} ({format_size(table.freed_bytes)})" if table.freed_files else "",
        f"{table.seconds:.1f}",
    )


def _change(before: str, after: str) -> str:
    return before if before == after else f"{before} → {after}"


def format_size(count: int) -> str:
    for unit, each in UNITS:
        if count >= each:
            return f"{count / each:.1f} {unit}"
    return f"{count} B"


@click.command("rebuild-postings")
@with_place_of_mode
def rebuild_postings(place: Place) -> None:
    """Make the postings again from the journal, which they are derived from.

    For a table that is gone or that `payhook verify` found wrong. May run on a busy stack: the table changes in one
    step; a processor that runs is started again once, and books what came meanwhile.
    """
    begun = place.ledger.find_begun()
    if not begun:
        raise click.ClickException("nothing has been decided yet: there is no journal to make postings of")
    # Its libraries take half a second to load; no other command of the group needs them.
    from ledger.rebuild import rebuild_postings as rebuild

    for layout in begun:
        with open_recorder(place).record_act(this_account(), "rebuild_postings", layout.stream) as changes:
            done = rebuild(layout.journal, layout.postings, SystemClock())
            changes.before = f"{done.before} lines"
            changes.after = (
                f"{done.lines} lines of the journal up to row {done.mark}, version {done.version} of the postings"
            )
        journal = f"the journal {layout.stream}" if len(begun) > 1 else "the journal"
        click.echo(
            f"postings rebuilt from {journal} up to row {done.mark:,}: {done.lines:,} lines (version {done.version}, "
            f"{done.seconds:.1f} s); {done.before:,} before"
        )


NOT_GOOD, IMPOSSIBLE = 1, 2


class _Folder(click.Path):
    name = "folder"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if is_url(str(value)):
            if not URL.fullmatch(str(value)):
                self.fail(f"{value}: {WANTED}", param, ctx)
            return LakeUrl(str(value).rstrip("/"))
        return super().convert(value, param, ctx)


FOLDER = _Folder(path_type=Path, file_okay=False)


@click.command()
@click.option(
    "--to", "folder", type=FOLDER, help="Folder of the backups, on another disk or store (default: backup.folder)."
)
@click.option("--keep", type=click.IntRange(min=1), help="Backups to keep (default: backup.keep).")
@click.option("--check", is_flag=True, help="Make no backup; verify the newest one, or --at NAME.")
@click.option("--at", "name", metavar="NAME", help="With --check: the backup to verify.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
@with_place
def backup(
    place: Place, folder: Location | None, keep: int | None, check: bool, name: str | None, as_json: bool
) -> None:
    """Back up what can't be rebuilt to another disk or object store, and verify the backup.

    Journals, bodies, audit log, redactions, receipts, reconciliations and catch-ups of live and test traffic,
    users.json, merchants.toml and subscribers.toml. Secrets aren't in it: keep them where secrets are kept. May run at
    any moment, on a busy stack too; with backup.folder set, the stack makes one every backup.every_h. Files that an
    earlier backup in the folder holds are not copied again; an object store copies them within itself.

    Exit 0: a good backup is there. 1: it was made and isn't good. 2: none could be made.
    """
    # Its libraries take half a second to load; no other command needs them.
    from stack.backup.make import back_up, check_backup
    from stack.backup.manifest import choose_backup

    try:
        chosen_folder = _choose_folder(place, folder)
        if check:
            at = choose_backup(chosen_folder, name)
            _print_check(at, check_backup(place.settings, at), as_json=as_json)
            return
        report = back_up(place.settings, chosen_folder, keep or place.settings.backup.keep, SystemClock())
    except PayhookError as problem:
        click.echo(f"payhook: {problem}", err=True)
        sys.exit(IMPOSSIBLE)
    if as_json:
        click.echo(report.as_json(), nl=False)
    else:
        _print_backup(report, on_same_disk=_on_same_disk(place, chosen_folder))
    sys.exit(0 if report.ok else NOT_GOOD)


@click.command()
@click.argument("folder", type=FOLDER)
@click.option("--at", "name", metavar="NAME", help="The backup, by its folder's name (default: the newest).")
@click.option("--reason", type=KEPT_TEXT, required=True, help="The reason, kept on record.")
@click.option(
    "--replace-newer", is_flag=True, help="Restore even if the lake's journals hold rows that the backup lacks."
)
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
@with_place
def restore(place: Place, folder: Location, name: str | None, reason: str, replace_newer: bool, as_json: bool) -> None:
    """Put a backup from FOLDER, a folder or a URL, in the place of the lake. The stack must be down, on every machine.

    Every byte is checked before anything is moved. The present lake, and what was derived from it, is set aside in
    DIR/replaced-TIME, on a store in _replaced-TIME of the lake's folder: remove that once all is well. What people did,
    what was redacted and what was answered after the backup stays on record, and redacted bodies don't come back;
    users.json, merchants.toml and subscribers.toml are put back only where they are gone. Each journal begins a new
    lineage. At the next start the processor decides again what Kafka still holds.

    Exit 0: it is done. 2: nothing was changed, and why.
    """
    # Spark's modules take a second to load; no other command needs them.
    from stack.backup.restore import restore as put_back

    try:
        prepare_store(place.settings, str(folder))
        restored = put_back(
            place.settings,
            folder,
            SystemClock(),
            actor=this_account(),
            reason=reason,
            name=name,
            replace_newer=replace_newer,
        )
    except PayhookError as problem:
        click.echo(f"payhook: {problem}", err=True)
        sys.exit(IMPOSSIBLE)
    if restored is None:
        click.echo("completed an interrupted restore; started no other one")
    elif as_json:
        click.echo(restored.as_json())
    else:
        _print_restored(restored)


def _choose_folder(place: Place, folder: Location | None) -> Location:
    if folder is not None:
        prepare_store(place.settings, str(folder))
        return folder
    if not place.settings.backup.folder:
        raise click.UsageError("name a folder on another disk: --to FOLDER, or `folder` in [backup] of payhook.toml")
    return location_of(place.settings.backup.folder)


def _on_same_disk(place: Place, folder: Location) -> bool:
    lake = place.layout.lake
    return isinstance(lake, Path) and isinstance(folder, Path) and lake.stat().st_dev == folder.stat().st_dev


def _print_check(at: Location, problems: list[str], *, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps({"ok": not problems, "backup": str(at), "problems": problems}, indent=1))
    else:
        for problem in problems:
            click.echo(f"{at.name}: {problem}", err=True)
        click.echo(f"{at.name} is invalid" if problems else f"{at.name} is valid: every file, table and journal")
    sys.exit(NOT_GOOD if problems else 0)


def _print_backup(report: BackupReport, *, on_same_disk: bool) -> None:
    rows = ", ".join(f"{stream} {seq:,}" for stream, seq in report.journals.items())
    click.echo(f"{report.folder / report.name}")
    click.echo(
        f"{report.files:,} files, {format_size(report.bytes)}; {format_size(report.copied_bytes)} copied, the "
        "rest shared"
    )
    click.echo(f"journals: {rows}")
    for problem in report.problems:
        click.echo(f"invalid: {problem}", err=True)
    if report.ok:
        click.echo(f"verified in {report.seconds:,.1f} s; {len(report.kept)} kept, {report.kept[0]} the oldest")
    else:
        click.echo("it doesn't count as a backup; the next one copies every file again", err=True)
    if on_same_disk:
        click.echo("the backup is on the lake's own disk: if that disk fails, both are lost", err=True)


def _print_restored(done: RestoreReport) -> None:
    for stream, seq in done.journals.items():
        aside = done.set_aside.get(stream, 0)
        beyond = "; the present one couldn't be read" if aside is None else f"; {aside:,} set aside" if aside else ""
        click.echo(f"{stream}: {seq:,} rows as of {to_rfc3339(done.made_at)}{beyond}")
    if done.kept:
        click.echo(f"kept as they were: {', '.join(done.kept)}")
    if done.files:
        click.echo(f"restored files: {', '.join(done.files)}")
    if done.redacted_again:
        click.echo(f"{done.redacted_again:,} bodies that were redacted after the backup were removed again")
    click.echo(f"the replaced lake is in {done.replaced}")
    click.echo(f"restored in {done.seconds:,.1f} s")
    click.echo("next: start what was stopped (`payhook up --detach`), then run `payhook verify`")
    for event_key in done.redact:
        click.echo(f"once it is decided and closed: payhook ledger redact {event_key}", err=True)


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
@with_place
def storage(place: Place, as_json: bool) -> None:
    """Show where the lake is, and try whether that place gives each name to one writer only.

    Four writers race for fifty names in a folder of their own, which is gone afterwards. Every commit rests on one of
    them getting it: do this once before payments go to another store or mount. Exit 1 where a name went to two, or
    where a listing doesn't begin where it should.
    """
    # Its libraries take a third of a second to load; few commands need them.
    from journal.storage import run_race

    lake = place.layout.lake
    try:
        outcome = run_race(lake)
    except OSError as failed:
        click.echo(f"payhook: {lake} can't be used: {failed}", err=True)
        sys.exit(1)
    if as_json:
        result = {"lake": str(lake), "ok": outcome.is_exclusive, "won": outcome.winners, "twice": outcome.twice}
        click.echo(json.dumps({**result, "nobody": outcome.nobody, "listed": outcome.listed}))
    elif outcome.is_exclusive:
        won = ", ".join(map(str, outcome.winners))
        click.echo(f"{lake}: each of {sum(outcome.winners)} names went to one of four writers ({won})")
    elif outcome.twice or outcome.nobody:
        problem = f"{outcome.twice} names went to two writers, {outcome.nobody} to none"
        click.echo(f"{lake}: {problem}. Don't keep a lake there: commits would be lost.", err=True)
    else:
        problem = "a listing that begins after a name has others than the later ones"
        click.echo(f"{lake}: {problem}. Don't keep a lake there: its tables couldn't be read.", err=True)
    sys.exit(0 if outcome.is_exclusive else 1)
