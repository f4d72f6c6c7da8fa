"""The `payhook` command: its sub-commands, and what `--help` teaches."""

from __future__ import annotations

import os
import sys
from typing import NoReturn

import click

from cli.lazy import Later, LazyGroup

COMMANDS = {
    "up": Later("cli.stack_commands:up", "start Kafka, Redis, the receiver and the processor on loopback"),
    "down": Later("cli.stack_commands:down", "stop everything that up started, in order"),
    "status": Later("cli.stack_commands:status", "do webhooks get all the way, and how far behind is the processor?"),
    "demo": Later("cli.stack_commands:demo", "run the story: webhooks with every kind of trouble"),
    "send": Later("cli.send_command:send", "sign a body and post it"),
    "verify": Later("cli.verify_command:verify", "prove that nothing was lost and nothing took effect twice"),
    "recover": Later("cli.recover_command:recover", "what the journals and Kafka disagree on, and what to do"),
    "ledger": Later("cli.groups:ledger", "what was booked, and why"),
    "dlq": Later("cli.groups:dlq", "dead events: what died, why, and another try"),
    "notify": Later("cli.notify_commands:notify", "subscribers that are told of what was booked"),
    "users": Later("cli.user_commands:users", "who may sign in at the management listener, and as what"),
    "alerts": Later("cli.alerts_command:alerts", "what fires, and who is told"),
    "backup": Later("cli.backup_command:backup", "copy what can't be made again to another disk, and verify the copy"),
    "restore": Later("cli.backup_command:restore", "put a backup in the place of the lake"),
    "storage": Later("cli.storage_command:storage", "where the lake is, and whether that place can hold one"),
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
      payhook recover                            what Kafka and the journal disagree on, if the processor refuses
      payhook backup --to FOLDER                 copy what can't be made again, and verify the copy
      payhook storage                            where the lake is, and whether that place can hold one
      payhook down                               stop everything

    Each command takes --data DIR (default .payhook/data). Settings come from payhook.toml and from PAYHOOK_…
    variables; see docs/settings.md.
    """


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
