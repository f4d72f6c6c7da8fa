"""Decides who reads the story of an event or an entity: finance each, an operator those of what they may replay."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

from fastapi import Depends

from console.access.roles import NotAllowed, Role, User
from console.access.routes import require_role
from core.decision import Decision
from journal.schema import JournalRow

REPLAYABLE = frozenset({Decision.DEAD, Decision.IGNORED, Decision.UNKNOWN})
"""Decisions after which an event may be replayed by order."""

STORY_READERS = Depends(require_role(Role.FINANCE, Role.REPLAYER))
"""Whom a route of stories is for; `check_reader` then looks at the rows."""


StoryReader = Annotated[User, STORY_READERS]
"""The user that a route of stories gets."""


def check_reader(user: User, rows: Iterable[JournalRow]) -> None:
    """
    :raises NotAllowed: the user isn't finance, and none of the rows is of what may be replayed
    """
    if not user.may(Role.FINANCE) and not any(row.decision in REPLAYABLE for row in rows):
        raise NotAllowed(user, Role.FINANCE)
