"""The users of the embedded broker: one a service, each with a password in a file of the owner alone, and its rights.

A password is made when its file isn't there; a file that was removed is another password at the next start.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialAlteration,
    UserScramCredentialUpsertion,
)

from core.files import create_once, read_credentials
from core.settings import KafkaSecurity, KafkaSettings
from stack.kafka_rights import RIGHTS, Right

ADMIN = "admin"
"""The user that makes users, rights and topics: a person's who looks into the broker, and the broker's own."""

ITERATIONS = 4_096
"""The fewest that Kafka allows: passwords are random, and longer than anybody could try."""

ASK_TIMEOUT_S = 30.0

OPERATIONS = {
    "Read": AclOperation.READ,
    "Write": AclOperation.WRITE,
    "Describe": AclOperation.DESCRIBE,
    "DescribeConfigs": AclOperation.DESCRIBE_CONFIGS,
    "AlterConfigs": AclOperation.ALTER_CONFIGS,
    "Create": AclOperation.CREATE,
}

_KINDS = {"topic": ResourceType.TOPIC, "group": ResourceType.GROUP}


def credentials_file(folder: Path, user: str) -> Path:
    return folder / f"{user}.credentials"


def new_password() -> str:
    return secrets.token_urlsafe(24)


def write_credentials(folder: Path, user: str, password: str) -> None:
    create_once(credentials_file(folder, user), f"{user}\n{password}\n", 0o600)


def password_of(folder: Path, user: str) -> str:
    return read_credentials(credentials_file(folder, user), "kafka.security.credentials_file").password


def security_of(folder: Path, user: str) -> KafkaSecurity:
    return KafkaSecurity(protocol="SASL_PLAINTEXT", credentials_file=str(credentials_file(folder, user)))


def embedded_kafka(folder: Path, address: str, user: str = ADMIN) -> KafkaSettings:
    return KafkaSettings(bootstrap_servers=address, security=security_of(folder, user))


def security_environment(folder: Path, user: str) -> dict[str, str]:
    return {
        f"PAYHOOK_KAFKA__SECURITY__{name.upper()}": value
        for name, value in security_of(folder, user).model_dump(exclude_defaults=True).items()
    } | {"PAYHOOK_KAFKA__SECURITY__MECHANISM": "SCRAM-SHA-512"}


def make_services(admin: AdminClient, folder: Path, services: Mapping[str, Sequence[Right]] = RIGHTS) -> None:
    """Gives each service its user, whose password is made where there is none, and exactly its rights."""
    for service in services:
        write_credentials(folder, service, new_password())
    set_passwords(admin, {service: password_of(folder, service) for service in services})
    wanted = {binding for service, rights in services.items() for binding in build_bindings(service, rights)}
    present = set(admin.describe_acls(_ALL).result(ASK_TIMEOUT_S))
    _await_answers(admin.create_acls(list(wanted - present)).values() if wanted - present else ())
    _await_answers(
        admin.delete_acls([_build_filter(binding) for binding in present - wanted]).values() if present - wanted else ()
    )


def set_passwords(admin: AdminClient, passwords: Mapping[str, str]) -> None:
    how = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, ITERATIONS)
    wanted: list[UserScramCredentialAlteration] = [
        UserScramCredentialUpsertion(user, how, password.encode()) for user, password in passwords.items()
    ]
    _await_answers(admin.alter_user_scram_credentials(wanted).values())


def build_bindings(user: str, rights: Iterable[Right]) -> Iterator[AclBinding]:
    for right in rights:
        for operation in right.operations:
            yield AclBinding(
                _KINDS[right.kind],
                right.begins,
                ResourcePatternType.PREFIXED,
                f"User:{user}",
                "*",
                OPERATIONS[operation],
                AclPermissionType.ALLOW,
            )


_ANY: Any = None
_ALL = AclBindingFilter(
    ResourceType.ANY, _ANY, ResourcePatternType.ANY, _ANY, _ANY, AclOperation.ANY, AclPermissionType.ANY
)


def _build_filter(binding: AclBinding) -> AclBindingFilter:
    return AclBindingFilter(
        binding.restype,
        binding.name,
        binding.resource_pattern_type,
        binding.principal,
        binding.host,
        binding.operation,
        binding.permission_type,
    )


def _await_answers(answers: Iterable[object]) -> None:
    for answer in answers:
        answer.result(ASK_TIMEOUT_S)  # type: ignore[attr-defined]
