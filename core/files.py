"""Small files: written whole or not at all, read again when they change; files that are sent to a process on another
machine; files that are locks; and secrets, one a line, the newest first, or a name and its password, two lines.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import os
import pickle
import re
import threading
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from core.errors import SettingError

FILE_BYTES_MAX = 1_048_576


class TooLarge(ValueError):
    def __init__(self, size_bytes: int, bytes_max: int) -> None:
        super().__init__(f"{size_bytes} bytes, at most {bytes_max} are read")


def create_once(path: Path, text: str, mode: int = 0o600) -> None:
    """Makes a whole file in one step; one that is there is never touched.

    So of several processes that start at once all read the same.

    :raises OSError: it can't be made
    """
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    fresh.touch(mode)
    fresh.write_text(text, "utf-8")
    with contextlib.suppress(FileExistsError):
        os.link(fresh, path)
    fresh.unlink()


@dataclass(frozen=True, slots=True)
class SentFiles:
    """The contents of files, or why they couldn't be read, to be sent to a process that has none of them.

    They aren't shown, since some are secrets.
    """

    digest: str
    packed: bytes = field(repr=False)


class FilesToSend:
    def __init__(self) -> None:
        self._stamps: object = None
        self._sent = SentFiles("", b"")

    def now(self, files: Mapping[Path, Path]) -> SentFiles:
        stamps = {path_asked: (path, _read_stamp(path)) for path_asked, path in files.items()}
        if stamps != self._stamps:
            contents = {str(path_asked): _read_content(path) for path_asked, path in sorted(files.items())}
            pickled = pickle.dumps(contents, protocol=5)
            self._sent = SentFiles(hashlib.sha256(pickled).hexdigest(), zlib.compress(pickled, 1))
            self._stamps = stamps
        return self._sent


def _read_stamp(path: Path) -> tuple[int, int, int] | None:
    try:
        stat = path.stat()
    except OSError:
        return None
    return stat.st_mtime_ns, stat.st_size, stat.st_ino


def _read_content(path: Path) -> bytes | tuple[int, str]:
    try:
        return path.read_bytes()
    except OSError as unreadable:
        return unreadable.errno or errno.EIO, unreadable.strerror or type(unreadable).__name__


def use_sent(files: SentFiles) -> None:
    global _received
    if _received is None or _received.digest != files.digest:
        _received = _Received(files.digest, pickle.loads(zlib.decompress(files.packed)))  # noqa: S301 - the driver's


@dataclass(frozen=True, slots=True)
class _Received:
    digest: str
    held: Mapping[str, bytes | tuple[int, str]] = field(repr=False)

    def read(self, path: Path) -> bytes:
        content = self.held.get(str(path), (errno.ENOENT, "it wasn't sent to this executor"))
        if isinstance(content, tuple):
            raise OSError(*content, str(path))
        return content


_received: _Received | None = None


class TextFiles:
    """Texts by path. An unchanged file gives the same text object; any thread may ask.

    Where this process was sent its files (`use_sent`), they are those.
    """

    def __init__(self, bytes_max: int = FILE_BYTES_MAX) -> None:
        self._bytes_max = bytes_max
        self._lock = threading.Lock()
        self._read: dict[Path, tuple[object, str]] = {}

    def text(self, path: Path, sent_as: Path | None = None) -> str:
        """
        :param sent_as: the path under which it is sent, if it is another one
        :raises OSError: it can't be read
        :raises ValueError: it isn't UTF-8, or `TooLarge`
        """
        received = _received
        if received is not None:
            raw = received.read(sent_as or path)
            return self._read_if_changed(path, raw, len(raw), raw)
        stat = path.stat()
        return self._read_if_changed(path, (stat.st_mtime_ns, stat.st_size, stat.st_ino), stat.st_size, None)

    def _read_if_changed(self, path: Path, stamp: object, size: int, raw: bytes | None) -> str:
        with self._lock:
            stamped = self._read.get(path)
        if stamped is not None and stamped[0] == stamp:
            return stamped[1]
        if size > self._bytes_max:
            raise TooLarge(size, self._bytes_max)
        text = (path.read_bytes() if raw is None else raw).decode("utf-8")
        with self._lock:
            self._read[path] = (stamp, text)
        return text


def problem_of(error: OSError | ValueError) -> str:
    if isinstance(error, UnicodeDecodeError):
        return "it isn't UTF-8"
    if isinstance(error, OSError):
        return error.strerror or type(error).__name__
    return str(error)


def write_whole(path: Path, text: str, mode: int = 0o600) -> None:
    """Writes a file whole or not at all, durably, over one that is there.

    :raises OSError: nothing was changed
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}")
    try:
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode), "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
        sync_folder(path.parent)
    finally:
        draft.unlink(missing_ok=True)


def sync_folder(folder: Path) -> None:
    """Makes what was created or removed in a folder survive a power cut."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextlib.contextmanager
def hold_lock(path: Path) -> Iterator[None]:
    """Holds a lock file within the block; waits until no other thread or process holds it.

    :raises OSError: it can't be made
    """
    with _lock_file(path) as descriptor:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield


@contextlib.contextmanager
def try_lock(path: Path) -> Iterator[bool]:
    """Holds the lock as `hold_lock`, without waiting; False where another process holds it.

    The system frees it when a process dies.
    """
    with _lock_file(path) as descriptor:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            is_ours = False
        else:
            is_ours = True
        yield is_ours


@contextlib.contextmanager
def _lock_file(path: Path) -> Iterator[int]:
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


CHARS_MIN = 16
DIFFERENT_CHARS_MIN = 6
"""A secret with fewer is guessed: keys of HMAC are to be as hard to guess as their hash."""

_PEM_BEGINS = re.compile(r"-----BEGIN [A-Z0-9 ]+-----")
_PRINTABLE = re.compile(r"[\x21-\x7e]+")


class SecretsWrong(ValueError):
    """Raised when a line of a file is no secret. Its message never quotes the line."""


def secret_lines(text: str) -> tuple[str, ...]:
    """Reads the secrets of a file, one a line; a PEM block is one.

    Nothing else is accepted: a comment or a word too many would be a key that everybody knows.

    :raises SecretsWrong: names the line
    """
    return tuple(_read_secrets(text.replace("\r\n", "\n").removesuffix("\n").split("\n")))


def _read_secrets(lines: list[str]) -> Iterator[str]:
    block: list[str] = []
    for number, line in enumerate(lines, 1):
        if block or _PEM_BEGINS.fullmatch(line):
            block.append(line)
            if line == block[0].replace("BEGIN", "END", 1):
                yield "\n".join(block)
                block = []
            continue
        yield _check_line(line, number)
    if block:
        raise SecretsWrong("its PEM block has no end")


def _check_line(line: str, number: int) -> str:
    if not line:
        raise SecretsWrong(f"line {number} is empty")
    if line.startswith("#"):
        raise SecretsWrong(f"line {number} is a comment; a secret's file holds secrets and nothing else")
    if not _PRINTABLE.fullmatch(line):
        raise SecretsWrong(f"line {number} holds a blank or what isn't ASCII; each line is one secret")
    if len(line) < CHARS_MIN or len(set(line)) < DIFFERENT_CHARS_MIN:
        raise SecretsWrong(
            f"line {number} is too weak: a secret has {CHARS_MIN} characters or more, "
            f"{DIFFERENT_CHARS_MIN} of them different"
        )
    return line


class Credentials(NamedTuple):
    name: str
    password: str


def read_credentials(file: Path, setting: str) -> Credentials:
    """Reads the file as it is now. Errors name the ``setting``, never what the file holds.

    :raises SettingError: it can't be read, or hasn't two lines
    """
    try:
        lines = [line.strip() for line in file.read_text("utf-8").splitlines() if line.strip()]
    except (OSError, UnicodeDecodeError) as unreadable:
        raise SettingError(setting, f"{file} can't be read: {type(unreadable).__name__}") from unreadable
    if len(lines) != 2:
        raise SettingError(setting, f"{file} must have two lines: the name (or the key's id), and its password")
    return Credentials(*lines)
