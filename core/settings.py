"""Settings that several services share: Kafka, Redis, topics. Those of the lake are in `core.store`, each service's own
beside its code.
"""

from __future__ import annotations

import re
from typing import Literal, TypeAlias
from urllib.parse import ParseResult, parse_qs, urlparse

from pydantic import BaseModel, ConfigDict, Field, model_validator

Durability: TypeAlias = Literal["replicated", "single"]
"""``single``: one broker may be all there is, and what it loses is lost."""

REPLICAS_MIN = 3
IN_SYNC_MIN = 2
"""A record is acknowledged when two brokers have it; with three, one may be down and records are still taken."""

RECORD_BYTES_MAX = 2 << 20
"""A record with its key and headers, as payhook's producers send it and its topics take it."""

BODY_BYTES_MAX = RECORD_BYTES_MAX - (256 << 10)
"""Its value; the rest is for headers and for the batch around it."""

CLEANUP, RECORD_BYTES = "cleanup.policy", "max.message.bytes"
UNCLEAN, IN_SYNC = "unclean.leader.election.enable", "min.insync.replicas"


def topic_config(replication: int) -> dict[str, str]:
    return {
        CLEANUP: "delete",
        RECORD_BYTES: str(RECORD_BYTES_MAX),
        UNCLEAN: "false",
        IN_SYNC: str(IN_SYNC_MIN if replication >= REPLICAS_MIN else 1),
    }


def replicas_min(durability: Durability) -> int:
    return REPLICAS_MIN if durability == "replicated" else 1


class Section(BaseModel):
    """A part of the settings: it never changes, and a name that isn't one of its own is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid")


_ADDRESS = re.compile(r"([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\]):[0-9]{1,5}")
_DATABASE = re.compile(r"[0-9]{0,5}")


class KafkaSecurity(Section):
    """How each client proves who it is, and whom it trusts. The user differs by service: set it in its environment."""

    protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = Field(
        "PLAINTEXT", description="Kafka's `security.protocol`"
    )
    mechanism: Literal["SCRAM-SHA-512", "SCRAM-SHA-256", "PLAIN"] = Field(
        "SCRAM-SHA-512", description="Kafka's `sasl.mechanism`, where the protocol has SASL"
    )
    credentials_file: str = Field(
        "", description="a file with the user's name and its password, a line each; looked at again every 5 s"
    )
    ca_file: str = Field("", description="PEM file of who may issue the brokers' certificates; empty: the system's")
    certificate_file: str = Field(
        "", description="PEM file of the client's own key (PKCS #8) and certificate, where brokers ask for one"
    )

    @property
    def is_sasl(self) -> bool:
        return self.protocol.startswith("SASL")

    @model_validator(mode="after")
    def _check_security(self) -> KafkaSecurity:
        if self.is_sasl != bool(self.credentials_file):
            problem = (
                f"credentials_file goes with a SASL protocol, but protocol is {self.protocol}: set both or neither"
            )
            raise ValueError(f"kafka.security: {problem}")
        if (self.ca_file or self.certificate_file) and not self.protocol.endswith("SSL"):
            raise ValueError(f"kafka.security names certificates, but protocol is {self.protocol}: set SSL or SASL_SSL")
        return self


class KafkaSettings(Section):
    """The broker that every process talks to."""

    bootstrap_servers: str = Field(
        "127.0.0.1:9092",
        min_length=1,
        description="Kafka's bootstrap servers; unless they are set, `payhook up` starts a broker of its own",
    )
    durability: Durability = Field(
        "replicated",
        description="replicated: receiver and processor start only where each topic has 3 replicas, of which 2 must "
        "have a record; single: one broker is enough, and what it loses is lost. `payhook up` sets single unless it is "
        "set, for its own broker",
    )
    transactional: tuple[str, ...] = Field(
        (),
        description="topics that transactions write to, such as a mirror's: gaps between their offsets are taken for "
        "markers, and not refused",
    )
    events_partitions: int = Field(
        4,
        ge=1,
        le=512,
        description="partitions of payments.events: an entity's events are on one of them. The same for receivers, "
        "processors and `payhook`; 48 outside one machine. How to raise it: docs/scaling.md",
    )
    record_keys_file: str = Field(
        "",
        description="file with the keys that sign events and commands, one a line, the newest first; the same for "
        "receivers, processors, console and `payhook`; empty: secrets/records in the data folder",
    )
    security: KafkaSecurity = KafkaSecurity()

    @property
    def is_outside(self) -> bool:
        return "bootstrap_servers" in self.model_fields_set

    @property
    def durability_of_up(self) -> Durability:
        return self.durability if self.is_outside or "durability" in self.model_fields_set else "single"


class RedisSettings(Section):
    """The Redis that receivers claim keys in, and processors announce their generation in.

    One server, the primary that Sentinel names, or a Cluster; clients are made from it by `core.redis`.
    """

    url: str = Field(
        "redis://127.0.0.1:6379/0",
        min_length=1,
        description="`redis://HOST:PORT/DATABASE`, or `rediss://` with TLS; of a cluster one of its nodes, with "
        "Sentinel no host: `rediss:///0`. `payhook up` sets its own server's",
    )
    credentials_file: str = Field(
        "",
        description="a file with the ACL user and its password, a line each (`default` where there is only a "
        "password); it is read at each new connection",
    )
    ca_file: str = Field(
        "", description="certificates of the authorities that may sign the servers'; empty: the system's"
    )
    certificate_file: str = Field(
        "",
        description="PEM file of the client's own key, without a passphrase, and certificate, where the servers ask "
        "for one",
    )
    sentinels: tuple[str, ...] = Field(
        (), description="`HOST:PORT` of each Sentinel; they are asked with TLS where `redis.url` says so"
    )
    sentinel_service: str = Field("", description="the name under which the Sentinels watch the primary")
    sentinel_credentials_file: str = Field(
        "", description="as `redis.credentials_file`, where the Sentinels ask for a password of their own"
    )
    cluster: bool = Field(False, description="`redis.url` is a node of a Redis Cluster")

    @model_validator(mode="after")
    def _is_one(self) -> RedisSettings:
        """Refuses contradictions. Messages don't repeat the URL: it may hold a password."""
        url = _redis_url(self.url)
        if (url.username or url.password) and self.credentials_file:
            raise ValueError("redis.url has a user or password, and redis.credentials_file is set: leave out one")
        if not self.is_tls and (self.ca_file or self.certificate_file):
            raise ValueError(
                "redis.ca_file and certificate_file are for TLS: begin redis.url with rediss://, or leave them out"
            )
        if self.sentinels:
            self._check_sentinels(url)
        elif self.sentinel_service or self.sentinel_credentials_file:
            raise ValueError("redis.sentinels is missing: set the HOST:PORT of each, or leave out redis.sentinel_…")
        elif url.scheme != "unix" and not url.hostname:
            raise ValueError("redis.url names no host; without one redis.sentinels is needed")
        if self.cluster and (url.scheme == "unix" or self.database_number):
            raise ValueError("redis.cluster: a cluster has only database 0, and no Unix socket; change redis.url")
        return self

    def _check_sentinels(self, url: ParseResult) -> None:
        if self.cluster:
            raise ValueError("redis.sentinels and redis.cluster are both set: a cluster fails over without Sentinel")
        if not self.sentinel_service:
            raise ValueError("redis.sentinel_service is missing: the name under which the Sentinels watch the primary")
        if "url" in self.model_fields_set and (url.hostname or url.scheme == "unix"):
            raise ValueError(
                "redis.url names a server, and redis.sentinels is set: leave one out. With Sentinel it is rediss:///0 "
                "for TLS, redis:///0 without"
            )
        if url.username or url.password:
            raise ValueError("redis.url has a user or password; with Sentinel they stand in redis.credentials_file")
        for sentinel in self.sentinels:
            if not _ADDRESS.fullmatch(sentinel):
                raise ValueError(f"redis.sentinels has {sentinel!r}: write HOST:PORT")

    @property
    def is_tls(self) -> bool:
        return self.url.startswith("rediss://")

    @property
    def database_number(self) -> int:
        url = _redis_url(self.url)
        return int(parse_qs(url.query).get("db", [url.path.strip("/") if url.scheme != "unix" else ""])[0] or 0)

    @property
    def sentinel_addresses(self) -> list[tuple[str, int]]:
        pairs = (sentinel.rpartition(":") for sentinel in self.sentinels)
        return [(host.strip("[]"), int(port)) for host, _, port in pairs]


def _redis_url(text: str) -> ParseResult:
    try:
        url = urlparse(text)
        _ = url.port
        is_known_query = set(parse_qs(url.query, strict_parsing=True)) <= {"db"} if url.query else True
    except ValueError:
        raise ValueError("redis.url can't be read: write redis://HOST:PORT/DATABASE") from None
    if url.scheme not in ("redis", "rediss", "unix") or not is_known_query:
        raise ValueError("redis.url begins with redis:// or rediss://, or unix://, and takes no option but db")
    if not _DATABASE.fullmatch(parse_qs(url.query).get("db", [""])[0]):
        raise ValueError("redis.url names a database that is no number")
    if url.scheme != "unix" and not _DATABASE.fullmatch(url.path.strip("/")):
        raise ValueError("redis.url must end with the number of a database, such as redis://HOST:PORT/0")
    return url


class TopicsSettings(Section):
    events_retention_days: int = Field(7, ge=1, description="days that payments.events and payments.receipts keep")
    dlq_retention_days: int = Field(30, ge=1, description="days that dlq.ledger keeps")
    replication: int | None = Field(
        None,
        ge=1,
        le=16,
        description="replicas of each topic; unless it is set 3, or 1 where kafka.durability is single",
    )

    def count_replicas(self, durability: Durability) -> int:
        return self.replication or replicas_min(durability)
