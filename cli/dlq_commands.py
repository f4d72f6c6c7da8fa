"""``payhook dlq``: what died, why, and another try."""

from __future__ import annotations

import click

from cli.dlq_runs import approve, cancel, pause, purge, replay, resolve, resume
from cli.dlq_selections import proposals, select, selections
from cli.dlq_view import groups, list_command, show, stats


@click.group()
def dlq() -> None:
    """Dead events: what died, why, and another try."""


for command in (list_command, show, stats, groups, select, selections, replay, purge, resolve):
    dlq.add_command(command)
for command in (proposals, approve, pause, resume, cancel):
    dlq.add_command(command)
