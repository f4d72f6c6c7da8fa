"""Says where a table is: in a folder on this machine, or at a URL on an object store."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

OBJECT_SCHEMES = ("s3://", "s3a://", "az://")
"""Stores whose put can be made to fail where something is: what commits rest on."""


@dataclass(frozen=True, slots=True, order=True)
class LakeUrl:
    """A location on an object store. It is written as a `Path` is, but has nothing that looks at a disk."""

    url: str

    def __truediv__(self, name: str) -> LakeUrl:
        return LakeUrl(f"{self.url.rstrip('/')}/{name}")

    def __str__(self) -> str:
        return self.url

    def __fspath__(self) -> str:
        return self.url

    @property
    def name(self) -> str:
        return self.url.rstrip("/").rpartition("/")[2]

    @property
    def parent(self) -> LakeUrl:
        return LakeUrl(self.url.rstrip("/").rpartition("/")[0])


Location: TypeAlias = Path | LakeUrl


def location_of(text: str) -> Location:
    return LakeUrl(text) if is_url(text) else Path(text)


def is_url(text: str) -> bool:
    return text.startswith(OBJECT_SCHEMES)


def bucket_of(url: str) -> str:
    scheme, _, rest = url.partition("://")
    return f"{scheme}://{rest.partition('/')[0]}"


def make_folder(path: str) -> None:
    if not is_url(path):
        Path(path).mkdir(parents=True, exist_ok=True)
