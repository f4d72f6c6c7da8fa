"""Object stores: where the lake and its backups may be, and how this process reaches them.

The lake is the journals, bodies, postings and everything else that is a Delta table. delta-rs, the log's writers
(`journal.objects`) and Spark all go by variables of their process: ``AWS_…`` or ``AZURE_…``. They are
filled in once, before anything is opened. A store of the backups' own is known by its bucket instead (`options_of`).
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import Field, model_validator

from core.files import read_credentials
from core.location import bucket_of, is_url
from core.settings import Section

CREDENTIALS = "object-store"
"""The file's name in the folder of secrets."""

TIMEOUT_S = 15.0
"""For one request to an object store. After a few tries the stream pauses."""

CONNECT_TIMEOUT_S = 3.0

URL = re.compile(r"(s3|az)://[a-z0-9][a-z0-9._-]{1,220}[a-z0-9](/[A-Za-z0-9._=-]+)*/?")
WANTED = "write s3://bucket/folder or az://container/folder"


@dataclass(frozen=True, slots=True)
class _Kind:
    prefix: str
    endpoint: str
    keys: tuple[str, str]


_KINDS = {
    "s3": _Kind("AWS_", "AWS_ENDPOINT_URL", ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")),
    "az": _Kind("AZURE_", "AZURE_STORAGE_ENDPOINT", ("AZURE_STORAGE_ACCOUNT_NAME", "AZURE_STORAGE_ACCOUNT_KEY")),
}


class StoreSettings(Section):
    """How an object store is reached.

    Keys have no place here: they are in a file of the secrets folder, in the environment, or the machine's own role.
    """

    endpoint: str = Field("", description="another address than the provider's own, as of an S3-compatible store")
    region: str = Field("us-east-1", min_length=1, description="S3's region; stores without any take each")
    path_style: bool = Field(True, description="S3: ask for `/bucket/name`; false: the bucket is in the host's name")
    allow_http: bool = Field(False, description="an endpoint without TLS is meant; only on a network of one's own")
    credentials_file: str = Field(
        "",
        description="S3: a file with the access key's id and its secret, a line each; Azure: the account's name and "
        "its key. Empty: `object-store` in the data folder's secrets where it is "
        "there, else the provider's own variables or the machine's own role",
    )

    @model_validator(mode="after")
    def _is_an_address(self) -> StoreSettings:
        if self.endpoint and not self.endpoint.startswith(("http://", "https://")):
            raise ValueError(f"endpoint is {self.endpoint!r}; it begins with https://")
        if self.endpoint.startswith("http://") and not self.allow_http:
            raise ValueError("endpoint is without TLS; set allow_http where that is meant")
        return self


class StorageSettings(StoreSettings):
    """Tables on this machine's disk, or on an object store that several machines share."""

    url: str = Field(
        "",
        description="where the lake is: `s3://bucket/folder`; empty: `lake` in the data folder",
    )

    @model_validator(mode="after")
    def _is_a_place(self) -> StorageSettings:
        if self.url and not URL.fullmatch(self.url):
            raise ValueError(f"storage.url is {self.url!r}: {WANTED}")
        return self


def set_store_env(
    settings: StorageSettings, secrets: Path, url: str, env: MutableMapping[str, str] = os.environ
) -> None:
    """Sets the variables by which this process reaches the store of a URL, keys included; none for a folder on a disk.

    :raises SettingError: the file with the keys can't be read, or isn't one
    """
    if is_url(url):
        env.update({**store_variables(settings, url), **_read_credentials(settings, secrets, url)})


def part_with_keys(settings: StorageSettings, secrets: Path, env: MutableMapping[str, str] = os.environ) -> None:
    """Forgets keys that came from a file: child processes read it themselves, if they need the lake."""
    if _credentials_file(settings, secrets) is not None:
        for kind in _KINDS.values():
            for name in kind.keys:
                env.pop(name, None)


def store_variables(settings: StoreSettings, url: str) -> dict[str, str]:
    scheme = _scheme_of(url)
    kind = _KINDS[scheme]
    variables_by_name = {
        f"{kind.prefix}ALLOW_HTTP": str(settings.allow_http).lower(),
        f"{kind.prefix}TIMEOUT": f"{TIMEOUT_S:g}s",
        f"{kind.prefix}CONNECT_TIMEOUT": f"{CONNECT_TIMEOUT_S:g}s",
    }
    if scheme == "s3":
        variables_by_name["AWS_REGION"] = settings.region
        variables_by_name["AWS_VIRTUAL_HOSTED_STYLE_REQUEST"] = str(not settings.path_style).lower()
        # A log's entry is put where none is yet, by delta-rs too; without it delta-rs refuses to write.
        variables_by_name["AWS_CONDITIONAL_PUT"] = "etag"
    return variables_by_name | ({kind.endpoint: settings.endpoint} if settings.endpoint else {})


_OWN: dict[str, Mapping[str, str]] = {}
"""By bucket, what is another than the process's variables say."""


def equip_bucket(settings: StoreSettings, url: str) -> None:
    """Does the same as `set_store_env` for one bucket, whatever the process's variables say.

    :raises SettingError: the file with the keys can't be read, or isn't one
    """
    _OWN[bucket_of(url)] = {**store_variables(settings, url), **_read_credentials(settings, None, url)}


def options_of(url: str) -> Mapping[str, str]:
    return _OWN.get(bucket_of(url), {})


def _read_credentials(settings: StoreSettings, secrets: Path | None, url: str) -> dict[str, str]:
    file, kind = _credentials_file(settings, secrets), _KINDS[_scheme_of(url)]
    if file is None:
        return {}
    return dict(zip(kind.keys, read_credentials(file, "storage.credentials_file"), strict=True))


def _credentials_file(settings: StoreSettings, secrets: Path | None) -> Path | None:
    if settings.credentials_file:
        return Path(settings.credentials_file)
    usual = secrets / CREDENTIALS if secrets is not None else None
    return usual if usual is not None and usual.is_file() else None


def _scheme_of(url: str) -> str:
    return url.partition("://")[0].removesuffix("a")
