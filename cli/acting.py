"""What is done on the command line, put on record."""

from __future__ import annotations

import getpass
from contextlib import AbstractContextManager

from cli.place import Place
from core.clock import SystemClock
from dlq.acts import Act, Acts, Outcome
from dlq.witness import Witnessed, witnessed

CHANNEL = "cli"


def on_record(place: Place, action: str, what: str, reason: str = "") -> AbstractContextManager[Witnessed]:
    """For the length of a ``with`` that does something in the name of the account that the command runs as.

    :raises ActsUnwritable: it can't be put on record
    """
    return witnessed(Acts(place.layout.acts), SystemClock(), getpass.getuser(), CHANNEL, action, what, reason)


def put_on_record(
    place: Place,
    action: str,
    what: str,
    outcome: Outcome = Outcome.DONE,
    reason: str = "",
    before: str | None = None,
    after: str | None = None,
) -> None:
    """An act that is to be on record before it takes effect, or that was refused.

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
