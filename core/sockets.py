"""Unix sockets that this user alone reaches: in the folder of what they belong to, or in one with a short path."""

from __future__ import annotations

import hashlib
import os
import stat
import tempfile
from pathlib import Path

from core.errors import PayhookError

SOCKET_PATH_BYTES_MAX = 100
"""A socket's address has 104 bytes at least, of which the last is 0 (macOS; Linux has 108)."""

PRIVATE = 0o700


class SocketFolderUnsafe(PayhookError):
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        super().__init__(
            f"{folder} is another user's, or no folder, and sockets of payhook belong there: remove it, or set "
            "XDG_RUNTIME_DIR to a folder of your own with a short path"
        )


def socket_folder(folder: Path, name_bytes: int) -> Path:
    """Returns the folder of sockets: ``folder``, or one with a short path where the address would be too long.

    :param name_bytes: of the sockets' own names
    """
    absolute = folder.absolute()
    name = f"payhook-{hashlib.sha256(os.fsencode(absolute)).hexdigest()[:16]}"
    in_temporary = Path(tempfile.gettempdir()) / name
    of_session = os.environ.get("XDG_RUNTIME_DIR")
    in_session = Path(of_session) / name if of_session else in_temporary
    length_max = SOCKET_PATH_BYTES_MAX - name_bytes - 1
    return next((choice for choice in (absolute, in_session) if len(os.fsencode(choice)) <= length_max), in_temporary)


def make_socket_folder(sockets: Path, folder: Path) -> None:
    """Makes the folder ``sockets`` of ``folder``, and closes it to other users.

    :raises SocketFolderUnsafe: another user may get at what is in it
    """
    sockets.mkdir(parents=True, exist_ok=True, mode=PRIVATE)
    # In the folder for temporary files any user could have put a link.
    status = sockets.stat(follow_symlinks=sockets == folder.absolute())
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid():
        raise SocketFolderUnsafe(sockets)
    sockets.chmod(PRIVATE)
