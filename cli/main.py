"""The `payhook` command: its sub-commands, and what `--help` teaches."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NoReturn

import click

CHECKOUT = Path(__file__).resolve().parents[1]
NOT_IMPORTED = frozenset({"tests", "docs"})


def hidden_packages() -> Iterator[tuple[str, str]]:
    """Finds packages of payhook's that others hide, each with where the other one is.

    An editable installation comes last on the path, so anything else of that name hides it.
    """
    for package in sorted(CHECKOUT.glob("*/__init__.py")):
        name = package.parent.name
        spec = None if name in NOT_IMPORTED else find_spec(name)
        if spec is not None and (spec.origin is None or Path(spec.origin).resolve() != package):
            yield name, str(spec.origin or next(iter(spec.submodule_search_locations or ["?"])))


def explain_refusal() -> str | None:
    hidden = dict(hidden_packages())
    if not hidden:
        return None
    packages = ", ".join(f"{name} is {place}" for name, place in hidden.items())
    return (
        f"payhook: packages of others hide payhook's own: {packages}. Take them out of this environment and out of "
        f"PYTHONPATH, or give payhook an environment of its own (`make setup` makes {CHECKOUT / '.venv'})"
    )


@dataclass(frozen=True, slots=True)
class LazyCommand:
    place: str
    line: str


class LazyGroup(click.Group):
    """Loads a command when it is called. ``later``: the group's commands by their names."""

    def __init__(self, *args: Any, later: Mapping[str, LazyCommand], **more: Any) -> None:
        super().__init__(*args, **more)
        self.later = later

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's own signature
        return sorted(self.later)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - as above
        later = self.later.get(cmd_name)
        if later is None:
            return None
        module, _, name = later.place.partition(":")
        command: click.Command = getattr(import_module(module), name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, self.later[name].line) for name in self.list_commands(ctx)])


LEDGER_COMMANDS = {
    "balances": LazyCommand("cli.ledger_commands:balances", "each account's balance, now or as of a moment"),
    "postings": LazyCommand(
        "cli.ledger_commands:postings", "what is booked on an account, with the balance after each"
    ),
    "owed": LazyCommand("cli.ledger_commands:owed", "what is owed to each merchant"),
    "event": LazyCommand("cli.ledger_commands:event", "an event's whole story"),
    "entity": LazyCommand("cli.ledger_commands:entity", "an entity's events (a payment's, say) in Kafka's order"),
    "unknown": LazyCommand("cli.ledger_commands:unknown", "events of which no table says what they mean for money"),
    "search": LazyCommand("cli.ledger_commands:search", "find decisions, the newest first"),
    "export": LazyCommand("cli.ledger_commands:export", "postings or the journal into a file"),
    "provider-bugs": LazyCommand("cli.provider_bugs:provider_bugs", "what providers reported twice or in two ways"),
    "reconcile": LazyCommand(
        "cli.reconcile_commands:reconcile", "a provider's settlement report against what was booked"
    ),
    "reconciliations": LazyCommand(
        "cli.reconcile_commands:reconciliations", "the reconciliations so far, or one again"
    ),
    "reverse": LazyCommand("cli.booking_commands:reverse", "propose to reverse what events or facts booked"),
    "enter": LazyCommand("cli.booking_commands:enter", "propose a booking by hand, with the document that shows it"),
    "proposals": LazyCommand("cli.booking_commands:proposals", "reversals and entries that wait for approval"),
    "maintain": LazyCommand(
        "cli.lake_commands:maintain", "merge the lake's small files so that it stays quick to read"
    ),
    "redact": LazyCommand("cli.lake_commands:redact", "remove the raw body of one event for good"),
    "rebuild-postings": LazyCommand("cli.lake_commands:rebuild_postings", "rebuild the postings from the journal"),
}

DLQ_COMMANDS = {
    "list": LazyCommand("cli.dlq_commands:list_command", "dead events, oldest first"),
    "show": LazyCommand("cli.dlq_commands:show", "show one dead event with all its details"),
    "stats": LazyCommand("cli.dlq_commands:stats", "how many are dead, how fast they come and go, what to do next"),
    "groups": LazyCommand("cli.dlq_commands:groups", "dead events by their cause, the most frequent first"),
    "select": LazyCommand("cli.dlq_selections:select", "freeze the dead events that match as a numbered set"),
    "selections": LazyCommand("cli.dlq_selections:selections", "the frozen sets, or one with what became of its items"),
    "replay": LazyCommand("cli.dlq_runs:replay", "try dead events again: a selection, or single ones"),
    "discard": LazyCommand("cli.dlq_runs:discard", "close dead events for good: what comes again is a duplicate"),
    "release": LazyCommand("cli.dlq_runs:release", "discard dead events and let them come again (two people)"),
    "purge": LazyCommand("cli.dlq_runs:purge", "the same as discard"),
    "resolve": LazyCommand("cli.dlq_runs:resolve", "close dead events that took effect elsewhere"),
    "proposals": LazyCommand("cli.dlq_selections:proposals", "runs that wait for approval, oldest first"),
    "pause": LazyCommand("cli.dlq_runs:pause", "send no more items of a run; items already sent still finish"),
    "resume": LazyCommand("cli.dlq_runs:resume", "continue a paused run"),
    "cancel": LazyCommand("cli.dlq_runs:cancel", "send no more items of a run, for good"),
    "audit": LazyCommand("cli.dlq_commands:audit", "what people did and were refused, the newest first"),
}


@click.group(cls=LazyGroup, later=LEDGER_COMMANDS)
def ledger() -> None:
    """Show what was booked, and why."""


@click.group(cls=LazyGroup, later=DLQ_COMMANDS)
def dlq() -> None:
    """Dead events: what died, why, and another try."""


COMMANDS = {
    "up": LazyCommand("cli.stack_commands:up", "start Kafka, Redis, the receiver and the processor on loopback"),
    "down": LazyCommand("cli.stack_commands:down", "stop everything that up started, in order"),
    "status": LazyCommand(
        "cli.status_command:status", "do webhooks get all the way, and how far behind is the processor?"
    ),
    "demo": LazyCommand("cli.stack_commands:demo", "run the story: webhooks with every kind of trouble"),
    "send": LazyCommand("cli.send_command:send", "sign a body and post it"),
    "catch-up": LazyCommand("cli.catch_up_command:catch_up", "fetch events that no webhook delivered"),
    "verify": LazyCommand("cli.verify_command:verify", "prove that nothing was lost and nothing took effect twice"),
    "recover": LazyCommand("cli.recover_command:recover", "what the journals and Kafka disagree on, and what to do"),
    "split": LazyCommand("cli.recover_command:split", "divide the journals among more processors"),
    "search": LazyCommand("cli.search_command:search", "find payments by key, id, order id, amount or account"),
    "ledger": LazyCommand("cli.main:ledger", "what was booked, and why"),
    "dlq": LazyCommand("cli.main:dlq", "dead events: what died, why, and another try"),
    "notify": LazyCommand("cli.notify_commands:notify", "subscribers, to which what was booked is sent"),
    "users": LazyCommand("cli.user_commands:users", "who may sign in at the management listener, and as what"),
    "alerts": LazyCommand("cli.alerts_command:alerts", "what fires, and which receivers get it"),
    "backup": LazyCommand("cli.lake_commands:backup", "back up what can't be rebuilt to another disk, and verify it"),
    "restore": LazyCommand("cli.lake_commands:restore", "restore the lake from a backup"),
    "package": LazyCommand("cli.stack_commands:package", "pack the code for Spark executors on other machines"),
    "storage": LazyCommand("cli.lake_commands:storage", "where the lake is, and whether that place can hold one"),
}


@click.group(
    cls=LazyGroup,
    later=COMMANDS,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)
@click.version_option(package_name="payhook", prog_name="payhook")
def main() -> None:
    """Payment webhooks into a ledger in which every event takes effect once.

    \b
    First steps:
      payhook up --detach                        start everything on this machine
      payhook send event.json --provider stripe  sign a body and post it
      payhook status                             is it ready, how far is it behind
      payhook ledger balances                    what was booked
      payhook search TEXT                        find a payment by id or amount
      payhook ledger reconcile --provider stripe --report FILE  compare its report
      payhook dlq list                           what died, and why
      payhook dlq select --class NAME            freeze what died of one cause
      payhook dlq audit                          who did or was refused what
      payhook users add NAME --role admin        add who may sign in to the pages
      payhook dlq stats                          how many are dead, and next steps
      payhook alerts                             what is wrong, and who gets it
      payhook notify subscribers                 to whom what was booked is sent
      payhook verify                             prove nothing was lost or doubled
      payhook recover                            where Kafka and journal disagree
      payhook backup --to FOLDER                 back up the lake, and verify it
      payhook storage                            check the place of the lake
      payhook down                               stop everything

    Each command takes --data DIR (default .payhook/data). Settings come from payhook.toml and from PAYHOOK_…
    variables; see docs/settings.md.
    """


def run() -> NoReturn:
    """Runs the console script. It ends at once: delta-rs's threads can abort an interpreter that takes its time to."""
    problem = explain_refusal()
    if problem is not None:
        sys.exit(problem)
    code = 0
    try:
        main()
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    run()
