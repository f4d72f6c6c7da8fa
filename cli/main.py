"""The `payhook` command: its sub-commands, and what `--help` teaches."""

from __future__ import annotations

import os
import sys
from typing import NoReturn

import click

from cli.alerts_command import alerts
from cli.audit_command import audit
from cli.dlq_commands import dlq
from cli.dlq_report import report
from cli.ledger_commands import ledger
from cli.maintain_command import maintain, redact
from cli.notify_commands import notify
from cli.rebuild_command import rebuild_postings
from cli.reconcile_commands import reconcile, reconciliations
from cli.reprocess_command import reprocess
from cli.reversal_commands import approve_command, proposals, reverse
from cli.send_command import send
from cli.stack_commands import demo, down, status, up
from cli.storage_command import storage
from cli.user_commands import users
from cli.verify_command import verify


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(package_name="payhook", prog_name="payhook")
def main() -> None:
    """Payment webhooks into a ledger in which every event takes effect once.

    \b
    First steps:
      payhook up --detach                        start everything on free loopback ports
      payhook send event.json --provider stripe  sign a body and post it
      payhook status                             is it ready, how far is it behind
      payhook ledger balances                    what was booked
      payhook ledger reconcile --provider stripe --report FILE   what was settled against what was booked
      payhook ledger reprocess --dry-run         what was ignored, and would be booked today
      payhook dlq list                           what died, and why
      payhook dlq select --class NAME            freeze what died alike; then dlq replay s1 --dry-run
      payhook dlq audit                          who did what, and was refused what
      payhook users add NAME --role admin        who may sign in at the management listener
      payhook dlq report                         the last week: causes, times, and what to do next
      payhook alerts                             what is wrong now, and who is told of it
      payhook notify subscribers                 who is told of what was booked
      payhook verify                             prove that nothing was lost or booked twice
      payhook storage                            where the lake is, and whether that place can hold one
      payhook down                               stop everything

    Each command takes --data DIR (default .payhook/data). Settings come from payhook.toml and from PAYHOOK_…
    variables; see docs/settings.md.
    """


for command in (reverse, approve_command, proposals, reconcile, reconciliations):
    ledger.add_command(command)
for command in (up, down, status, demo, verify, send, ledger, dlq, notify, users, alerts, storage):
    main.add_command(command)
for command in (audit, report):
    dlq.add_command(command)
for command in (maintain, redact, rebuild_postings, reprocess):
    ledger.add_command(command)


def run() -> NoReturn:
    """The console script. It ends at once: delta-rs's threads can abort an interpreter that takes its time to."""
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
