"""Starts an S3-compatible server: moto's, over HTTP."""

from __future__ import annotations

import contextlib
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import boto3
from botocore.config import Config

from journal.settings import StorageSettings
from stack.ports import LOOPBACK, free_ports
from stack.server import Running, Server, running

BUCKET = "payhook"
KEY_ID, SECRET = "a-test-key", "a-test-secret"
ASK_S = 1.0


@dataclass(frozen=True)
class ObjectStore:
    """A running server with one empty bucket."""

    endpoint: str
    process: Running

    def settings(self, folder: str, endpoint: str | None = None, **other: float) -> StorageSettings:
        return StorageSettings(
            url=f"s3://{BUCKET}/{folder}", endpoint=endpoint or self.endpoint, allow_http=True, **other
        )

    def variables(self) -> dict[str, str]:
        return {"AWS_ACCESS_KEY_ID": KEY_ID, "AWS_SECRET_ACCESS_KEY": SECRET}

    @property
    def port(self) -> int:
        return int(self.endpoint.rpartition(":")[2])


@contextlib.contextmanager
def object_store_server(folder: Path) -> Iterator[ObjectStore]:
    """A server for the length of a ``with``; what it keeps is in its memory, its log in ``folder``."""
    (port,) = free_ports(1)
    endpoint = f"http://{LOOPBACK}:{port}"
    with running(_moto(folder, port)) as process:
        client = boto3.client(
            "s3",
            endpoint_url=endpoint,
            aws_access_key_id=KEY_ID,
            aws_secret_access_key=SECRET,
            region_name="us-east-1",
            config=Config(s3={"addressing_style": "path"}),
        )
        client.create_bucket(Bucket=BUCKET)
        yield ObjectStore(endpoint, process)


def _moto(folder: Path, port: int) -> Server:
    return Server(
        name="moto",
        command=(sys.executable, "-m", "tests.object_store.one_at_a_time", str(port)),
        log=folder / "moto.log",
        answers=lambda: _answers(f"http://{LOOPBACK}:{port}/"),
    )


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=ASK_S):
            return True
    except urllib.error.HTTPError as answered:
        return answered.code < 500
    except OSError:
        return False
