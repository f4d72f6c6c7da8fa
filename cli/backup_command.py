"""``payhook backup`` and ``payhook restore``: copies of what can't be made again, and how they are put back."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cli.acting import put_on_record
from cli.kept_text import KEPT_TEXT
from cli.maintain_command import size
from cli.place import Place, with_place
from core.clock import SystemClock, to_rfc3339
from core.errors import PayhookError

if TYPE_CHECKING:
    from stack.backup.make import BackupReport
    from stack.backup.restore import Restored

NOT_GOOD, IMPOSSIBLE = 1, 2
FOLDER = click.Path(path_type=Path, file_okay=False)


@click.command()
@click.option("--to", "folder", type=FOLDER, help="Folder of the backups, on another disk (default: backup.folder).")
@click.option("--keep", type=click.IntRange(min=1), help="Backups that are kept (default: backup.keep).")
@click.option("--check", is_flag=True, help="Make none; verify the newest one that is there, or --at NAME.")
@click.option("--at", "name", metavar="NAME", help="With --check: the backup to verify.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
@with_place
def backup(place: Place, folder: Path | None, keep: int | None, check: bool, name: str | None, as_json: bool) -> None:
    """Copy what can't be made again to another disk, and verify the copy.

    Journals, bodies, acts, redactions, receipts and reconciliations of live and test traffic, users.json,
    merchants.toml and subscribers.toml. Secrets aren't in it: keep them where secrets are kept. May run at any moment,
    on a busy stack too; with backup.folder set, the stack makes one every backup.every_h. Files that an earlier backup
    in the folder holds are not copied again.

    Exit 0: a good backup is there. 1: it was made and isn't good. 2: none could be made.
    """
    # Its libraries take half a second to load; no other command needs them.
    from stack.backup.make import back_up, check_backup
    from stack.backup.manifest import chosen

    try:
        chosen_folder = _folder(place, folder)
        if check:
            at = chosen(chosen_folder, name)
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
@click.option("--reason", type=KEPT_TEXT, required=True, help="Why: a person reads it years later.")
@click.option(
    "--replace-newer", is_flag=True, help="Also where the present journals hold rows that the backup doesn't."
)
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
@with_place
def restore(place: Place, folder: Path, name: str | None, reason: str, replace_newer: bool, as_json: bool) -> None:
    """Put a backup from FOLDER in the place of the lake. The stack must be down.

    Every byte is checked before anything is moved. The present lake, and what was derived from it, is set aside in
    DIR/replaced-TIME: remove that once all is well. What people did, what was redacted and what was answered after the
    backup stays on record, and redacted bodies don't come back; users.json, merchants.toml and subscribers.toml are
    put back only where they are gone. Each journal begins a new lineage. At the next start the processor decides again
    what Kafka still holds.

    Exit 0: it is done. 2: nothing was changed, and why.
    """
    # Spark's modules take a second to load; no other command needs them.
    from stack.backup.restore import restore as put_back

    try:
        restored = put_back(
            place.settings, folder, SystemClock(), name=name, replace_newer=replace_newer, reason=reason
        )
    except PayhookError as problem:
        click.echo(f"payhook: {problem}", err=True)
        sys.exit(IMPOSSIBLE)
    if restored is None:
        click.echo("an interrupted restore was completed; no other one was begun")
        return
    try:
        put_on_record(place, "restore", f"backup {restored.name}", reason=reason, after=_as_json(restored))
    except PayhookError as problem:
        click.echo(f"payhook: it is restored, and not on record: {problem}", err=True)
    if as_json:
        click.echo(_as_json(restored))
    else:
        _print_restored(restored)


def _folder(place: Place, folder: Path | None) -> Path:
    """
    :raises click.UsageError: none is named anywhere
    """
    if folder is not None:
        return folder
    if not place.settings.backup.folder:
        raise click.UsageError("name a folder on another disk: --to FOLDER, or `folder` in [backup] of payhook.toml")
    return Path(place.settings.backup.folder)


def _on_same_disk(place: Place, folder: Path) -> bool:
    lake = place.layout.lake
    return isinstance(lake, Path) and lake.stat().st_dev == folder.stat().st_dev


def _print_check(at: Path, problems: list[str], *, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps({"ok": not problems, "backup": str(at), "problems": problems}, indent=1))
    else:
        for problem in problems:
            click.echo(f"{at.name}: {problem}", err=True)
        click.echo(f"{at.name} is not good" if problems else f"{at.name} is good: every file, table and journal")
    sys.exit(NOT_GOOD if problems else 0)


def _print_backup(report: BackupReport, *, on_same_disk: bool) -> None:
    rows = ", ".join(f"{stream} {seq:,}" for stream, seq in report.journals.items())
    click.echo(f"{report.folder / report.name}")
    click.echo(f"{report.files:,} files, {size(report.bytes)}; {size(report.copied_bytes)} copied, the rest linked")
    click.echo(f"journals: {rows}")
    for problem in report.problems:
        click.echo(f"not good: {problem}", err=True)
    if report.ok:
        click.echo(f"verified in {report.seconds:,.1f} s; {len(report.kept)} kept, {report.kept[0]} the oldest")
    else:
        click.echo("it doesn't count as a backup; the next one copies every file again", err=True)
    if on_same_disk:
        click.echo("it is on the same disk as the lake: it won't outlast that disk", err=True)


def _print_restored(done: Restored) -> None:
    for stream, seq in done.journals.items():
        aside = done.set_aside.get(stream, 0)
        beyond = "; the present one couldn't be read" if aside is None else f"; {aside:,} set aside" if aside else ""
        click.echo(f"{stream}: {seq:,} rows as of {to_rfc3339(done.made_at)}{beyond}")
    if done.kept:
        click.echo(f"kept as they were: {', '.join(done.kept)}")
    if done.files:
        click.echo(f"put back: {', '.join(done.files)}")
    if done.redacted_again:
        click.echo(f"{done.redacted_again:,} bodies that were redacted after the backup were removed again")
    click.echo(f"what was there is in {done.replaced}")
    click.echo(f"restored in {done.seconds:,.1f} s; next: `payhook up --detach`, then `payhook verify`")
    for event_key in done.redact:
        click.echo(f"once it is decided and closed: payhook ledger redact {event_key}", err=True)


def _as_json(done: Restored) -> str:
    fields: dict[str, Any] = {**asdict(done), "made_at": to_rfc3339(done.made_at), "replaced": str(done.replaced)}
    return json.dumps(fields)
