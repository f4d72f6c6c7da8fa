"""Where subscribers' secrets and header values may be read: not from just any file that the subscribers file names.

Whoever edits that file says where requests go. A path that leads elsewhere would send them what it holds: a provider's
secret, a key of the machine.
"""

from __future__ import annotations

from pathlib import Path

from notify.errors import FileUnusable
from notify.settings import NotifySettings
from notify.subscribers import Subscriber

SECRETS, OURS = "secrets", "notify"


def secret_file(subscriber: Subscriber, path: Path, settings: NotifySettings) -> Path:
    """The file that a path leads to, symbolic links followed: below ``secrets/notify/`` beside the subscribers file,
    one of ``secrets/notify.…``, or below `NotifySettings.secrets_dir`. Whether it is there isn't asked.

    :raises FileUnusable: it leads elsewhere
    """
    beside = subscriber.folder / SECRETS
    try:
        file = path.resolve()
        ours = [(beside / OURS).resolve(), *([Path(settings.secrets_dir).resolve()] if settings.secrets_dir else [])]
        own_name = file.parent == beside.resolve() and file.name.startswith(f"{OURS}.")
    except (OSError, RuntimeError, ValueError) as unreadable:
        raise FileUnusable(subscriber.name, path, f"it can't be followed: {unreadable}") from None
    if own_name or any(folder in file.parents for folder in ours):
        return file
    problem = (
        f"notify reads no secret there. Put it below {beside / OURS}/ or into {beside / OURS}.{subscriber.name}; "
        "notify.secrets_dir allows another folder"
    )
    raise FileUnusable(subscriber.name, path, problem)
