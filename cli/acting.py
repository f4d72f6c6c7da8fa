"""What is done on the command line, put on record."""

from __future__ import annotations

import getpass

from cli.place import Place
from core.clock import SystemClock
from dlq.acts import Act, Acts, Outcome

CHANNEL = "cli"


def put_on_record(
    place: Place,
    action: str,
    what: str,
    outcome: Outcome = Outcome.DONE,
    reason: str = "",
    before: str | None = None,
    after: str | None = None,
) -> None:
    """An act of the account that the command runs as.

    :raises ActsUnwritable: it can't be put on record
    """
    act = Act(
        at=SystemClock().now(),
        actor=getpass.getuser(),
        action=action,
        outcome=outcome,
        channel=CHANNEL,
        what=what,
        reason=reason,
        before=before,
        after=after,
    )
    Acts(place.layout.acts).record(act)
