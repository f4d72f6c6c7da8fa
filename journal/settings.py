"""Where the lake is: the journals, bodies, postings and everything else that is a Delta table."""

from __future__ import annotations

import re

from pydantic import BaseModel, ConfigDict, Field, model_validator

_URL = re.compile(r"s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](/[A-Za-z0-9._=-]+)*/?")


class StorageSettings(BaseModel):
    """Tables on this machine's disk, or on an S3-compatible store that several machines share.

    Keys have no place here: they are in a file of the secrets folder, in the environment, or the machine's own role.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    url: str = Field("", description="`s3://bucket/folder` of the lake; empty: `lake` in the data folder")
    endpoint: str = Field("", description="address of an S3-compatible store; empty: Amazon's own of the region")
    region: str = Field("us-east-1", min_length=1, description="the store's region; stores without any take each")
    path_style: bool = Field(True, description="ask for `/bucket/name`; false: the bucket is part of the host's name")
    allow_http: bool = Field(False, description="an endpoint without TLS is meant; only on a network of one's own")
    credentials_file: str = Field(
        "",
        description="a file with the access key's id and its secret, a line each; empty: `object-store` in the data "
        "folder's secrets where it is there, else `AWS_…` variables or the machine's own role",
    )
    timeout_s: float = Field(15.0, gt=0, le=300, description="for one request to the store; seconds")
    connect_timeout_s: float = Field(3.0, gt=0, le=60, description="for a connection to the store; seconds")

    @model_validator(mode="after")
    def _is_one(self) -> StorageSettings:
        if self.url and not _URL.fullmatch(self.url):
            raise ValueError(f"storage.url is {self.url!r}; s3://bucket/folder is wanted")
        if self.endpoint and not self.endpoint.startswith(("http://", "https://")):
            raise ValueError(f"storage.endpoint is {self.endpoint!r}; it begins with https://")
        if self.endpoint.startswith("http://") and not self.allow_http:
            raise ValueError("storage.endpoint is without TLS; set storage.allow_http where that is meant")
        if self.endpoint and not self.url:
            raise ValueError("storage.endpoint is set, storage.url isn't: s3://bucket/folder is wanted")
        return self
