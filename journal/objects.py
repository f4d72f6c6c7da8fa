"""Tables on an S3-compatible object store.

Address and credentials are those that delta-rs, Spark and every other reader of the table in this process goes by: the
environment's ``AWS_…`` variables (`core.settings` fills them in).
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, timedelta
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pyarrow as pa
from obstore.exceptions import (
    AlreadyExistsError,
    BaseError,
    InvalidPathError,
    NotSupportedError,
    PermissionDeniedError,
    UnauthenticatedError,
)
from obstore.store import S3Store

from journal.errors import problem_of
from journal.storage import StoredFile, StoreFailed

if TYPE_CHECKING:
    from obstore import ObjectMeta

PUT_TRIES = 3
PUT_WAIT_S = 0.2
"""Before the second try, and twice as long before each further one: a server that starts again is given a second."""

RETRIES, RETRY_S_MAX = 3, 15.0
"""What the client itself goes on trying after answers of 5xx and lost connections."""

FINAL = (PermissionDeniedError, UnauthenticatedError, NotSupportedError, InvalidPathError, FileNotFoundError)
"""Answers that another try doesn't change; a put finds no file where there is no such bucket."""

FAILED = (BaseError, FileNotFoundError)

PART_BYTES = 8 << 20


class ObjectStorage:
    """A table's part of a bucket. A file is put where none is by ``If-None-Match: *``: 412 says that the name is taken.

    A put whose answer was lost is tried again. Every entry of a log differs from every other: whichever try came
    through, the name holds this entry or another writer's, and reading it shows which.
    """

    def __init__(self, url: str) -> None:
        split = urlsplit(url)
        self._url = url.rstrip("/")
        try:
            self._store = S3Store(
                split.netloc,
                prefix=split.path.strip("/") or None,
                config={"conditional_put": "etag"},
                retry_config={
                    "max_retries": RETRIES,
                    "retry_timeout": timedelta(seconds=RETRY_S_MAX),
                    "backoff": {"init_backoff": timedelta(seconds=PUT_WAIT_S), "max_backoff": timedelta(seconds=2)},
                },
            )
        except (BaseError, ValueError) as failed:
            raise StoreFailed(self._url, problem_of(failed)) from failed

    def put_new(self, name: str, data: bytes) -> None:
        problem: Exception | None = None
        for number in range(PUT_TRIES):
            if number:
                time.sleep(PUT_WAIT_S * 2 ** (number - 1))
            try:
                self._store.put(name, data, mode="create")
            except AlreadyExistsError as taken:
                problem = taken
                # A conflict with a request that came to nothing is reported in the same way: then it isn't there.
                with contextlib.suppress(FileNotFoundError):
                    if self.read(name) == data:
                        return
                    raise FileExistsError(f"{self._url}/{name}") from taken
            except FINAL as refused:
                raise self._failed(name, refused) from refused
            except BaseError as failed:
                problem = failed
            else:
                return
        assert problem is not None
        raise self._failed(name, problem) from problem

    def put_file(self, name: str, data: bytes | pa.Buffer) -> None:
        try:
            self._store.put(name, memoryview(data).cast("B"), use_multipart=False)
        except FAILED as failed:
            raise self._failed(name, failed) from failed

    def adopt(self, staged: Path, name: str) -> None:
        try:
            self._store.put(name, staged, chunk_size=PART_BYTES)
        except FAILED as failed:
            raise self._failed(name, failed) from failed
        staged.unlink()

    def read(self, name: str) -> bytes:
        try:
            return bytes(self._store.get(name).bytes())
        except FileNotFoundError:
            raise FileNotFoundError(f"{self._url}/{name}") from None
        except BaseError as failed:
            raise self._failed(name, failed) from failed

    def delete(self, names: Sequence[str]) -> None:
        """A thousand a request."""
        try:
            with contextlib.suppress(FileNotFoundError):
                self._store.delete(list(names))
        except BaseError as failed:
            raise self._failed("", failed) from failed

    def files(self, folder: str = "", after: str = "") -> Iterator[StoredFile]:
        """An object store tells names in their order, a thousand a request; those before ``after`` cost none."""
        prefix = f"{folder}/" if folder else ""
        try:
            for one in self._list(prefix, after):
                name = one["path"].removeprefix(prefix)
                if "/" not in name:
                    yield StoredFile(name, one["size"], one["last_modified"].astimezone(UTC))
        except FAILED as failed:
            raise self._failed(folder, failed) from failed

    def _list(self, prefix: str, after: str) -> Iterable[ObjectMeta]:
        if not after:
            return self._store.list_with_delimiter(prefix or None)["objects"]
        return chain.from_iterable(self._store.list(prefix or None, offset=f"{prefix}{after}", chunk_size=1_000))

    def _failed(self, name: str, failed: Exception) -> StoreFailed:
        return StoreFailed(f"{self._url}/{name}", problem_of(failed))
