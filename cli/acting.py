"""What is done on the command line, put on record."""

from __future__ import annotations

import os
import pwd
from contextlib import AbstractContextManager

from cli.place import Place
from core.clock import SystemClock
from dlq.acts import Act, Acts, Outcome
from dlq.witness import Witnessed, witnessed

CHANNEL = "cli"


def this_account() -> str:
    """Who runs the command: the account of its real uid. No variable says another one, as LOGNAME could."""
    uid = os.getuid()
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"uid {uid}"


def on_record(place: Place, action: str, what: str, reason: str = "") -> AbstractContextManager[Witnessed]:
    """For the length of a ``with`` that does something in the name of the account that the command runs as.

    :raises ActsUnwritable: it can't be put on record
    """
    return witnessed(Acts(place.layout.acts), SystemClock(), this_account(), CHANNEL, action, what, reason)


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
        actor=this_account(),
        action=action,
        outcome=outcome,
        channel=CHANNEL,
        what=what,
        reason=reason,
        before=before,
        after=after,
    )
    Acts(place.layout.acts).record(act)
