"""What a table asks of the place where its files are: the same of a local disk and of an object store."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Protocol

import pyarrow as pa

from core.errors import PayhookError


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file as a listing tells it: its name in its folder, its size in bytes, and when it was written (UTC)."""

    name: str
    size: int
    at: datetime


class StoreFailed(PayhookError, OSError):
    """An object store refused a request, or didn't answer it."""

    def __init__(self, place: str, problem: str) -> None:
        self.place = place
        self.problem = problem
        super().__init__(f"{place}: {problem}")


class Storage(Protocol):
    """One table's files; names are relative to its folder, with ``/`` between their parts.

    Every method raises `OSError` where the place can't be reached, refuses, or doesn't answer in time.
    """

    def put_new(self, name: str, data: bytes) -> None:
        """Puts a file whole, or not at all; on return it outlasts a loss of power.

        Of any number of callers, in any number of processes, one puts it; the others are told that it is there.

        :raises FileExistsError: one is there, and it isn't this one
        :raises OSError: it may have been put, or may yet be
        """

    def put_file(self, name: str, data: bytes | pa.Buffer) -> None:
        """Puts a file under a name that nobody else uses; on return it outlasts a loss of power."""

    def adopt(self, staged: Path, name: str) -> None:
        """Takes a file of this machine in, under a name that nobody else uses; ``staged`` is gone afterwards.

        Its age counts from then on: maintenance removes old files that no commit names.
        """

    def read(self, name: str) -> bytes:
        """
        :raises FileNotFoundError: none is there
        """

    def delete(self, name: str) -> None:
        """Deletes a file, if it is there; on return it stays deleted."""

    def delete_all(self, names: Sequence[str]) -> None:
        """Deletes files of the folder itself; what fails in the middle leaves some of them."""

    def files(self, folder: str = "", after: str = "") -> Iterator[StoredFile]:
        """The files right in a folder whose names come after ``after``, in any order; none of a folder that isn't."""
