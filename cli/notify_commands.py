"""``payhook notify``: the subscribers, whether each can be reached, and a test of it."""

from __future__ import annotations

import json
import secrets as random_secrets
import sys
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import click

from cli.acting import open_recorder, this_account
from cli.dlq_runs import PROPOSE, WAIT, run_selection
from cli.dlq_watch import open_letters
from cli.place import KEPT_TEXT, Place, read_since, with_place
from cli.tables import PrintedTable, print_text
from core.card_numbers import quote_masked
from core.clock import Clock, SystemClock, to_rfc3339
from core.errors import PayhookError
from core.files import hold_lock, problem_of, write_whole
from core.routing import stream_of
from core.status_file import fresh_status
from notify.errors import FileUnusable
from notify.facts import trial_json
from notify.handler import DisabledSubscribers, disabled_folder
from notify.sender import SAID_CHARS_MAX, SECRETS_MAX, Sender, downstream_of, secret_file
from notify.signature import new_secret
from notify.subscribers import Subscriber, SubscribersFile, missed_items, shown_fields
from operations.command import REPLAY
from operations.selection.model import RunRequest
from stack.addresses import open_statuses

STREAM = "notify"
SEND_REASON = "it missed them"
WHY_CHARS_MAX = 2_000


@click.group()
def notify() -> None:
    """Subscribers, to which what was booked is sent."""


@notify.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@with_place
def subscribers(place: Place, as_json: bool) -> None:
    """List the subscribers of the subscribers file, and whether each one can be reached.

    With since when one takes nothing and why, and when it is asked next, as the stream says that runs on this data
    folder. Exit 1 if one can't be reached: it fails, it answered 410 and is disabled, or its url, secrets or headers
    can't be used.
    """
    file = _open_file(place)
    if not file.path.exists():
        click.echo("[]" if as_json else f"there are no subscribers: {file.path} isn't there")
        return
    states = [_read_state(place, subscriber) for subscriber in file.read_all().values()]
    if as_json:
        click.echo(json.dumps(states, indent=1))
    else:
        _print(states)
    sys.exit(0 if all(state["state"] in ("active", "off") for state in states) else 1)


@notify.command()
@click.argument("name")
@with_place
def enable(place: Place, name: str) -> None:
    """Send to NAME again, which answered 410 and was disabled. What came since isn't sent."""
    subscriber = _open_file(place).find_named(name)
    kept = DisabledSubscribers(disabled_folder(place.settings.notify))
    disabled = kept.find(name)
    if disabled is not None:
        open_recorder(place).record(
            this_account(), "notify_enable", name, before=f"disabled: {disabled.reason}", after="enabled"
        )
        kept.enable_subscriber(name, to_rfc3339(SystemClock().now()))
    click.echo(f"{name} gets events again" if disabled is not None else f"{name} wasn't disabled")
    if not subscriber.enabled:
        click.echo(f"but it stays off: enabled = false in {place.settings.notify.subscribers_file}")


@notify.command()
@click.argument("name")
@with_place
def test(place: Place, name: str) -> None:
    """Send NAME a signed test event (type payhook.test, without a fact), disabled or not.

    Prints the answer; exit 1 if it isn't a 2xx. Nothing is written down.
    """
    subscriber, clock = _open_file(place).find_named(name), SystemClock()
    sender = Sender(place.settings.notify, clock)
    try:
        sys.exit(0 if _try_subscriber(sender, subscriber, clock) else 1)
    finally:
        sender.close()


@notify.command()
@click.argument("name")
@click.option("--since", callback=read_since, metavar="TIME", required=True, help="Missed at or after this time (UTC).")
@click.option(
    "--reason", type=KEPT_TEXT, default=SEND_REASON, show_default=True, help="The reason, kept with the decision."
)
@PROPOSE
@WAIT
@with_place
def send(place: Place, name: str, since: datetime, reason: str, propose: bool, wait: bool) -> None:
    """Send NAME what it missed since a time: while it was disabled or off, or before it wanted a type.

    Each event once: what it has taken isn't sent again. It is a replay, so it is on record, and beyond the limits of
    a day another admin must approve it. Enable the subscriber first.
    """
    subscriber = _open_file(place).find_named(name)
    disabled = DisabledSubscribers(disabled_folder(place.settings.notify)).find(name)
    if disabled is not None or not subscriber.enabled:
        how = f"payhook notify enable {name}" if subscriber.enabled else "enabled = true in the subscribers file"
        raise click.ClickException(f"{name} isn't active: enable it first ({how})")
    stream_place = replace(place, stream=STREAM, mode=subscriber.mode)
    missed = [
        (part, missed_items(part.looked_at.journal, subscriber, since)) for part in stream_place.stream_parts.values()
    ]
    click.echo(f"{name} missed {sum(len(items) for _, items in missed):,} events since {to_rfc3339(since)}")
    for part, items in missed:
        dead = open_letters(part)
        for selection in dead.selections.freeze_ignored(items, this_account(), reason):
            run_selection(
                part, dead, selection.number, RunRequest(REPLAY, reason, propose=propose), wait=wait, as_json=False
            )


@notify.command("new-secret")
@click.argument("name")
@with_place
def new_secret_command(place: Place, name: str) -> None:
    """Give NAME a new signing secret and print it. The older ones keep signing beside it.

    Once the subscriber has the new one, remove the older lines from its file of secrets.
    """
    click.echo(add_secret(place, name))


def add_secret(place: Place, name: str) -> str:
    """Makes a signing secret for a subscriber and keeps it before the older ones.

    :raises FileUnusable: as many as may be live are, or the file can't be used
    :raises AuditLogUnwritable: nothing was changed
    """
    subscriber = _open_file(place).find_named(name)
    path = secret_file(subscriber, subscriber.secrets_path, place.settings.notify)
    # Until all of them are written, no other process adds one.
    with hold_lock(path.with_name(f".{path.name}.lock")):
        try:
            secrets = path.read_text("utf-8").split() if path.exists() else []
        except (OSError, ValueError) as unreadable:
            raise FileUnusable(name, path, problem_of(unreadable)) from unreadable
        if len(secrets) >= SECRETS_MAX:
            problem = f"it holds {len(secrets)} secrets, the most: remove the last lines (the oldest)"
            raise FileUnusable(name, path, problem)
        open_recorder(place).record(
            this_account(), "notify_secret", name, before=f"{len(secrets)} secrets", after=f"{len(secrets) + 1} secrets"
        )
        secret = new_secret()
        write_whole(path, "".join(f"{line}\n" for line in (secret, *secrets)))
    return secret


def _open_file(place: Place) -> SubscribersFile:
    return SubscribersFile(Path(place.settings.notify.subscribers_file))


def _try_subscriber(sender: Sender, subscriber: Subscriber, clock: Clock) -> bool:
    message_id = f"msg_{random_secrets.token_hex(16)}"
    began = clock.monotonic_s()
    answer = sender.send(subscriber, message_id, trial_json(message_id, to_rfc3339(clock.now())))
    took_ms = (clock.monotonic_s() - began) * 1_000
    # As a quoted text: what a stranger's server says doesn't reach the terminal as control sequences.
    quoted = f": {quote_masked(answer.said, SAID_CHARS_MAX)}" if answer.said else ""
    click.echo(f"{answer.status} in {took_ms:.0f} ms to {message_id}{quoted}")
    return 200 <= answer.status <= 299


def _read_state(place: Place, subscriber: Subscriber) -> dict[str, Any]:
    settings = place.settings.notify
    disabled = DisabledSubscribers(disabled_folder(settings)).find(subscriber.name)
    state, why, since, next_try_at = "active", "", "", None
    downstream = _said_of(place, subscriber)
    if not subscriber.enabled:
        state, why = "off", "enabled = false"
    elif disabled is not None:
        state, why, since = "disabled", disabled.reason, disabled.at
    elif problem := _find_problem(place, subscriber):
        state, why = "unusable", problem
    elif failing_since := downstream.get("failing_since") or downstream.get("since"):
        state, why, since, next_try_at = "failing", downstream["why"], failing_since, downstream["next_try_at"]
    return {**shown_fields(subscriber), "state": state, "since": since, "why": why, "next_try_at": next_try_at}


def _said_of(place: Place, subscriber: Subscriber) -> Mapping[str, Any]:
    stream, now = stream_of(STREAM, subscriber.mode), SystemClock().now()
    status = fresh_status(open_statuses(place.settings).read_one(stream, now), now) or {}
    state: Mapping[str, Any] = (status.get("downstreams") or {}).get(downstream_of(subscriber.name), {})
    return state


def _find_problem(place: Place, subscriber: Subscriber) -> str:
    sender = Sender(place.settings.notify, SystemClock())
    try:
        sender.check(subscriber)
    except PayhookError as problem:
        return str(problem)
    finally:
        sender.close()
    return ""


def _print(subscribers: list[dict[str, Any]]) -> None:
    rows = PrintedTable("subscriber", "state", "of", "types", "url")
    for subscriber in subscribers:
        whose = f"{subscriber['mode']}, tenant {subscriber['tenant']}" if subscriber["tenant"] else subscriber["mode"]
        rows.add(subscriber["name"], subscriber["state"], whose, " ".join(subscriber["types"]), subscriber["url"])
    rows.print()
    for subscriber in subscribers:
        if subscriber["why"]:
            since = f" since {subscriber['since']}" if subscriber["since"] else ""
            next_try = f"; next try at {subscriber['next_try_at']}" if subscriber["next_try_at"] else ""
            print_text(
                f"{subscriber['name']} is {subscriber['state']}{since}: {subscriber['why']}{next_try}",
                WHY_CHARS_MAX,
                indent=0,
            )
