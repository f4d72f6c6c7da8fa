"""The commands of ``payhook ledger`` and ``payhook dlq``: where each is, and its line of help."""

from __future__ import annotations

import click

from cli.lazy import Later, LazyGroup

LEDGER_COMMANDS = {
    "balances": Later("cli.ledger_commands:balances", "each account's balance, now or as of a moment"),
    "event": Later("cli.ledger_story:event", "an event's whole story"),
    "entity": Later("cli.ledger_story:entity", "an entity's events (a payment's, say) in Kafka's order"),
    "search": Later("cli.ledger_search:search", "find decisions, the newest first"),
    "export": Later("cli.ledger_search:export", "postings or the journal into a file"),
    "provider-bugs": Later("cli.ledger_commands:provider_bugs", "what providers told twice or in two ways"),
    "reconcile": Later("cli.reconcile_commands:reconcile", "a provider's settlement report against what was booked"),
    "reconciliations": Later("cli.reconcile_commands:reconciliations", "the reconciliations so far, or one again"),
    "reprocess": Later("cli.reprocess_command:reprocess", "book what was ignored because nobody handled its type then"),
    "reverse": Later("cli.reversal_commands:reverse", "propose to take back what events or facts booked"),
    "enter": Later("cli.entry_commands:enter", "propose a booking by hand, with the document that shows it"),
    "proposals": Later("cli.reversal_commands:proposals", "reversals and entries that wait for another person"),
    "maintain": Later("cli.maintain_command:maintain", "keep the lake quick to read: small files into large ones"),
    "redact": Later("cli.maintain_command:redact", "remove the raw body of one event for good"),
    "rebuild-postings": Later("cli.rebuild_command:rebuild_postings", "make the postings anew from the journal"),
}

DLQ_COMMANDS = {
    "list": Later("cli.dlq_view:list_command", "dead events, oldest first"),
    "show": Later("cli.dlq_view:show", "everything that is known of one dead event"),
    "stats": Later("cli.dlq_view:stats", "how many are dead, how old they are, of which kind"),
    "groups": Later("cli.dlq_view:groups", "dead events by their cause, the most frequent first"),
    "select": Later("cli.dlq_selections:select", "freeze the dead events that match as a numbered set"),
    "selections": Later("cli.dlq_selections:selections", "the frozen sets, or one with what became of its items"),
    "replay": Later("cli.dlq_runs:replay", "try dead events again: a selection, or single ones"),
    "purge": Later("cli.dlq_runs:purge", "close dead events for good: none of them takes effect any more"),
    "resolve": Later("cli.dlq_runs:resolve", "close dead events whose effect was brought about elsewhere"),
    "proposals": Later("cli.dlq_selections:proposals", "what waits for a second person, oldest first"),
    "pause": Later("cli.dlq_runs:pause", "send nothing more of a run; what is on its way goes on"),
    "resume": Later("cli.dlq_runs:resume", "let a paused run go on"),
    "cancel": Later("cli.dlq_runs:cancel", "send nothing more of a run, for good"),
    "audit": Later("cli.audit_command:audit", "what people did and were refused, the newest first"),
    "report": Later("cli.dlq_report:report", "a week: what died of what, how long it took, what to do next"),
}


@click.group(cls=LazyGroup, later=LEDGER_COMMANDS)
def ledger() -> None:
    """What was booked, and why."""


@click.group(cls=LazyGroup, later=DLQ_COMMANDS)
def dlq() -> None:
    """Dead events: what died, why, and another try."""
