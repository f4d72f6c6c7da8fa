"""Stores tables on an object store: S3 and what speaks it, and Azure's.

Address and credentials are those that delta-rs, Spark and every other reader of the table in this process goes by
(`core.store`).
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, timedelta
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import obstore
import pyarrow as pa
from obstore.exceptions import (
    AlreadyExistsError,
    BaseError,
    InvalidPathError,
    NotSupportedError,
    PermissionDeniedError,
    UnauthenticatedError,
)
from obstore.store import AzureStore, S3Store

from core.store import options_of
from journal.errors import problem_of
from journal.storage import StoredFile, StoreFailed

if TYPE_CHECKING:
    from obstore import ObjectMeta, ReadableFile, WritableFile

PUT_TRIES = 3
PUT_WAIT_S = 0.2
"""Before the second try, and twice as long before each further one: a server that starts again is given a second."""

RETRIES, RETRY_S_MAX = 3, 15.0
"""Retries by the client itself after answers of 5xx and lost connections."""

FINAL = (PermissionDeniedError, UnauthenticatedError, NotSupportedError, InvalidPathError, FileNotFoundError)
"""Answers that another try doesn't change; a put finds no file where there is no such bucket."""

PART_BYTES = 8 << 20


STORES: Mapping[str, type[S3Store | AzureStore]] = {"s3": S3Store, "s3a": S3Store, "az": AzureStore}


class ObjectStorage:
    """A table's part of a bucket. Files are put with ``If-None-Match: *``: 412 (Azure: 409) says that the name is
    taken.

    A put whose answer was lost is tried again. Every log entry differs from every other, so reading the name shows
    whose entry it holds.
    """

    def __init__(self, url: str) -> None:
        split = urlsplit(url)
        self._url = url.rstrip("/")
        try:
            self._store = STORES[split.scheme](
                split.netloc,
                prefix=split.path.strip("/") or None,
                config=options_of(url),  # type: ignore[arg-type]
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
                raise self._make_error(name, refused) from refused
            except BaseError as failed:
                problem = failed
            else:
                return
        assert problem is not None
        raise self._make_error(name, problem) from problem

    def put_file(self, name: str, data: bytes | pa.Buffer) -> None:
        with self._translate_errors(name):
            self._store.put(name, memoryview(data).cast("B"), use_multipart=False)

    def adopt_file(self, staged: Path, name: str) -> None:
        with self._translate_errors(name):
            self._store.put(name, staged, chunk_size=PART_BYTES)
        staged.unlink()

    def read(self, name: str) -> bytes:
        with self._translate_errors(name, may_miss=True):
            return bytes(self._store.get(name).bytes())

    def delete(self, names: Sequence[str]) -> None:
        with self._translate_errors(""), contextlib.suppress(FileNotFoundError):
            self._store.delete(list(names))

    def files(self, folder: str = "", after: str = "") -> Iterator[StoredFile]:
        prefix = f"{folder}/" if folder else ""
        with self._translate_errors(folder):
            for meta in self._list(prefix, after):
                name = meta["path"].removeprefix(prefix)
                if "/" not in name:
                    yield StoredFile(name, meta["size"], meta["last_modified"].astimezone(UTC))

    def list_folders(self) -> list[str]:
        with self._translate_errors(""):
            return [str(prefix).rpartition("/")[2] for prefix in self._store.list_with_delimiter()["common_prefixes"]]

    def tree(self, folder: str = "") -> Iterator[str]:
        with self._translate_errors(folder):
            for page in self._store.list(f"{folder}/" if folder else None, chunk_size=1_000):
                yield from (meta["path"] for meta in page)

    def has_file(self, name: str) -> bool:
        try:
            with self._translate_errors(name, may_miss=True):
                self._store.head(name)
        except FileNotFoundError:
            return False
        return True

    @contextlib.contextmanager
    def reader(self, name: str) -> Iterator[ReadableFile]:
        with self._translate_errors(name, may_miss=True):
            file = obstore.open_reader(self._store, name, buffer_size=PART_BYTES)
        try:
            yield file
        except BaseError as failed:
            raise self._make_error(name, failed) from failed

    @contextlib.contextmanager
    def writer(self, name: str) -> Iterator[WritableFile]:
        """Opens a file to be written, under a name that no other writer uses; on return it is there whole."""
        with self._translate_errors(name), obstore.open_writer(self._store, name, buffer_size=PART_BYTES) as file:
            yield file

    def copy(self, name: str, to: str) -> None:
        with self._translate_errors(name, may_miss=True):
            self._store.copy(name, to)

    def _list(self, prefix: str, after: str) -> Iterable[ObjectMeta]:
        if not after:
            return self._store.list_with_delimiter(prefix or None)["objects"]
        return chain.from_iterable(self._store.list(prefix or None, offset=f"{prefix}{after}", chunk_size=1_000))

    @contextlib.contextmanager
    def _translate_errors(self, name: str, *, may_miss: bool = False) -> Iterator[None]:
        try:
            yield
        except FileNotFoundError as missing:
            if may_miss:
                raise FileNotFoundError(f"{self._url}/{name}") from None
            raise self._make_error(name, missing) from missing
        except BaseError as failed:
            raise self._make_error(name, failed) from failed

    def _make_error(self, name: str, failed: Exception) -> StoreFailed:
        return StoreFailed(f"{self._url}/{name}", problem_of(failed))
