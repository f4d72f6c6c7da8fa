"""The object store of a test run: moto's S3, which starts everywhere, one that runs, or a real one that is built.

``PAYHOOK_TEST_OBJECT_STORE=http://host:port`` names one that runs; its keys are this process's ``AWS_ACCESS_KEY_ID``
and ``AWS_SECRET_ACCESS_KEY``. With ``PAYHOOK_TEST_OBJECT_STORE_SCHEME=az`` it is Azure's, and its keys ``AZURE_…``.
Tests keep to folders of random names in one bucket; S3's is made if it isn't there.
"""

from __future__ import annotations

import base64
import contextlib
import hmac
import os
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from email.utils import formatdate
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import boto3
from botocore.config import Config
from botocore.exceptions import ClientError

from core.store import StorageSettings
from stack.servers.ports import LOOPBACK, free_ports
from stack.servers.server import Server, run_server
from tests.object_store.programs import azurite, go_program

ENDPOINT, BUCKET_NAME = "PAYHOOK_TEST_OBJECT_STORE", "PAYHOOK_TEST_OBJECT_STORE_BUCKET"
BUCKET = os.environ.get(BUCKET_NAME, "payhook")
NAMED = os.environ.get(ENDPOINT)
SCHEME = os.environ.get("PAYHOOK_TEST_OBJECT_STORE_SCHEME", "s3")
"""Looked up at the beginning: later no test sees variables from outside."""

PREFIXES = {"s3": "AWS_", "az": "AZURE_"}
KEY_NAMES = {
    "s3": ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"),
    "az": ("AZURE_STORAGE_ACCOUNT_NAME", "AZURE_STORAGE_ACCOUNT_KEY"),
}
KEYS = {"AWS_ACCESS_KEY_ID": "a-test-key", "AWS_SECRET_ACCESS_KEY": "a-test-secret"}
VERSITYGW = ("github.com/versity/versitygw/cmd/versitygw", "v1.8.0")
AZURITE_KEYS = {
    "AZURE_STORAGE_ACCOUNT_NAME": "payhooktests",
    "AZURE_STORAGE_ACCOUNT_KEY": base64.b64encode(b"a test's secret").decode(),
}
ASK_S = 1.0


@dataclass(frozen=True)
class ObjectStore:
    """A running server with a bucket."""

    endpoint: str
    keys: Mapping[str, str]
    scheme: str = "s3"

    def settings(self, folder: str, endpoint: str | None = None) -> StorageSettings:
        """``endpoint``: of a relay in between; Azurite has the account's name behind its address."""
        url = f"{self.scheme}://{BUCKET}/{folder}"
        by_way_of = self.endpoint if endpoint is None else f"{endpoint}{urlsplit(self.endpoint).path.rstrip('/')}"
        return StorageSettings(url=url, endpoint=by_way_of, allow_http=True)

    def variables(self) -> dict[str, str]:
        return dict(self.keys)

    @property
    def address(self) -> tuple[str, int]:
        """Host and port, for a relay in between."""
        split = urlsplit(self.endpoint)
        return str(split.hostname), split.port or (443 if split.scheme == "https" else 80)


@contextlib.contextmanager
def object_store_server(folder: Path) -> Iterator[ObjectStore]:
    """A server for the length of a ``with``: the one that is named, else moto's, which keeps all in its memory and its
    log in ``folder``.
    """
    if NAMED:
        named = ObjectStore(NAMED, {name: os.environ[name] for name in KEY_NAMES[SCHEME]}, SCHEME)
        yield with_bucket(named) if SCHEME == "s3" else named
        return
    (port,) = free_ports(1)
    with run_server(_moto(folder, port)):
        yield with_bucket(ObjectStore(f"http://{LOOPBACK}:{port}", KEYS))


@contextlib.contextmanager
def versity_gateway(folder: Path) -> Iterator[ObjectStore]:
    """VersityGW over a folder of this machine, for the length of a ``with``.

    :raises NotBuilt: it can't be had here
    """
    (port,) = free_ports(1)
    with run_server(_versity(folder, port)):
        yield with_bucket(ObjectStore(f"http://{LOOPBACK}:{port}", KEYS))


@contextlib.contextmanager
def azurite_server(folder: Path) -> Iterator[ObjectStore]:
    """Azure's emulator of blobs, for the length of a ``with``.

    :raises NotBuilt: it can't be had here
    """
    program, (port,) = azurite(), free_ports(1)
    endpoint = f"http://{LOOPBACK}:{port}/{AZURITE_KEYS['AZURE_STORAGE_ACCOUNT_NAME']}"
    server = Server(
        name="azurite",
        command=(
            *(*program, "--blobHost", LOOPBACK, "--blobPort", str(port), "--location", str(folder)),
            *("--silent", "--skipApiVersionCheck", "--disableTelemetry"),
        ),
        log=folder / "azurite.log",
        answers=lambda: _answers(endpoint),
        env={"AZURITE_ACCOUNTS": ":".join(AZURITE_KEYS.values())},
    )
    with run_server(server):
        _make_container(endpoint, BUCKET)
        yield ObjectStore(endpoint, AZURITE_KEYS, "az")


def _make_container(endpoint: str, name: str) -> None:
    """Signed with the account's key, as Azure documents it: https://learn.microsoft.com/rest/api/storageservices/."""
    account, key = AZURITE_KEYS.values()
    headers = {"x-ms-date": formatdate(usegmt=True), "x-ms-version": "2021-12-02"}
    said = "".join(f"{header}:{value}\n" for header, value in sorted(headers.items()))
    text = "PUT\n" + 11 * "\n" + said + f"/{account}/{account}/{name}\nrestype:container"
    signature = base64.b64encode(hmac.digest(base64.b64decode(key), text.encode(), "sha256")).decode()
    request = urllib.request.Request(
        f"{endpoint}/{name}?restype=container",
        method="PUT",
        headers={**headers, "Authorization": f"SharedKey {account}:{signature}"},
    )
    with urllib.request.urlopen(request, timeout=10 * ASK_S):
        pass


def client_of(store: ObjectStore) -> Any:
    """Amazon's own client."""
    return boto3.client(
        "s3",
        endpoint_url=store.endpoint,
        aws_access_key_id=store.keys["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=store.keys["AWS_SECRET_ACCESS_KEY"],
        region_name="us-east-1",
        config=Config(s3={"addressing_style": "path"}),
    )


def with_bucket(store: ObjectStore, name: str = BUCKET) -> ObjectStore:
    client = client_of(store)
    try:
        client.head_bucket(Bucket=name)
    except ClientError:
        client.create_bucket(Bucket=name)
    return store


def _moto(folder: Path, port: int) -> Server:
    return Server(
        name="moto",
        command=(sys.executable, "-m", "tests.object_store.one_at_a_time", str(port)),
        log=folder / "moto.log",
        answers=lambda: _answers(f"http://{LOOPBACK}:{port}/"),
    )


def versity_command(folder: Path, port: int, address: str = LOOPBACK) -> tuple[str, ...]:
    """VersityGW's command. What a file system can't keep of an object's attributes is in files beside it.

    :raises NotBuilt: it can't be had here
    """
    data, attributes = folder / "buckets", folder / "attributes"
    for one in (data, attributes):
        one.mkdir(parents=True)
    keys = ("--access", KEYS["AWS_ACCESS_KEY_ID"], "--secret", KEYS["AWS_SECRET_ACCESS_KEY"])
    return (
        *(str(go_program(*VERSITYGW)), *keys, "--port", f"{address}:{port}", "--region", "us-east-1"),
        *("posix", "--sidecar", str(attributes), str(data)),
    )


def _versity(folder: Path, port: int) -> Server:
    return Server(
        name="versitygw",
        command=versity_command(folder, port),
        log=folder / "versitygw.log",
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
