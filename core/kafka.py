"""Kafka's clients: one place makes all of them, from one block of settings.

A password that is rolled needs no restart: the file of credentials is looked at every `LOOK_S`, and each client that is
open takes the new ones. Connections that are open stay open, as the broker lets them. Certificates are read when a
process starts.
"""

from __future__ import annotations

import logging
import re
import threading
import weakref
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol, TypeVar

import confluent_kafka
from confluent_kafka.admin import AdminClient

from core.errors import SettingError
from core.files import Credentials, read_credentials
from core.record_keys import RecordKeys
from core.routing import partition_of
from core.settings import KafkaSecurity, KafkaSettings

log = logging.getLogger(__name__)

LOOK_S = 5.0

_LOGIN = "org.apache.kafka.common.security"
_MODULES = {
    "PLAIN": f"{_LOGIN}.plain.PlainLoginModule",
    "SCRAM-SHA-256": f"{_LOGIN}.scram.ScramLoginModule",
    "SCRAM-SHA-512": f"{_LOGIN}.scram.ScramLoginModule",
}
_PEM = re.compile(r"-----BEGIN ([A-Z0-9 ]+)-----.*?-----END \1-----", re.DOTALL)


class _Producer(confluent_kafka.Producer):
    """A producer that can be referred to weakly, unlike the library's own.

    With ``keys`` it signs the events and commands that it publishes, each for its partition
    (`core.routing.partition_of`). Other topics' records aren't signed.
    """

    keys: RecordKeys | None = None
    events_partitions = 1

    def produce(self, topic: str, value: Any = None, key: Any = None, **more: Any) -> None:  # type: ignore[override]
        key = key.encode() if isinstance(key, str) else key
        partition = None if self.keys is None else partition_of(topic, key or b"", self.events_partitions)
        if self.keys is not None and partition is not None:
            value = value.encode() if isinstance(value, str) else value
            given = more.get("headers") or []
            headers = given.items() if isinstance(given, Mapping) else given
            more["partition"] = partition
            more["headers"] = self.keys.add_signature(topic, partition, key, value, headers)
        super().produce(topic, value, key, **more)


class _Consumer(confluent_kafka.Consumer):
    pass


class _Admin(AdminClient):
    pass


def open_producer(
    kafka: KafkaSettings, config: Mapping[str, Any], keys: RecordKeys | None = None
) -> confluent_kafka.Producer:
    """
    :param keys: for a producer of events or commands, which are believed by their signature
    :raises SettingError: a file that the settings name can't be read
    """
    producer = _Producer(client_config(kafka, config))
    producer.keys, producer.events_partitions = keys, kafka.events_partitions
    return _follow_credentials(producer, kafka.security)


def open_consumer(kafka: KafkaSettings, config: Mapping[str, Any]) -> confluent_kafka.Consumer:
    return _follow_credentials(_Consumer(client_config(kafka, config)), kafka.security)


def open_admin(kafka: KafkaSettings) -> AdminClient:
    return _follow_credentials(_Admin(client_config(kafka, {"log_level": 0})), kafka.security)


def check_kafka_files(kafka: KafkaSettings) -> None:
    """Checks Kafka's files at the start of a service that signs what it publishes.

    :raises SettingError: a file that the settings name can't be read, or the keys of records are wrong
    """
    client_config(kafka, {})
    RecordKeys(Path(kafka.record_keys_file))


def client_config(kafka: KafkaSettings, config: Mapping[str, Any]) -> dict[str, Any]:
    """Returns librdkafka's configuration: the client's own, and how this Kafka is reached.

    :raises SettingError: a file that the settings name can't be read
    """
    security = kafka.security
    options: dict[str, Any] = {**config, "bootstrap.servers": kafka.bootstrap_servers}
    if security.protocol == "PLAINTEXT":
        return options
    options["security.protocol"] = security.protocol
    if security.is_sasl:
        name, password = read_sasl_credentials(security)
        options |= {"sasl.mechanism": security.mechanism, "sasl.username": name, "sasl.password": password}
    if security.ca_file:
        _read(security.ca_file, "kafka.security.ca_file")
        options["ssl.ca.location"] = security.ca_file
    if security.certificate_file:
        _read(security.certificate_file, "kafka.security.certificate_file")
        options |= {
            "ssl.certificate.location": security.certificate_file,
            "ssl.key.location": security.certificate_file,
        }
    return options


def spark_options(kafka: KafkaSettings) -> dict[str, str]:
    """Returns options of Spark's Kafka source. Certificates are in them, so that executors need no files.

    :raises SettingError: a file that the settings name can't be read
    """
    security = kafka.security
    options = {"kafka.bootstrap.servers": kafka.bootstrap_servers}
    if security.protocol == "PLAINTEXT":
        return options
    options["kafka.security.protocol"] = security.protocol
    if security.is_sasl:
        name, password = (_quote_word(word) for word in read_sasl_credentials(security))
        login = f"{_MODULES[security.mechanism]} required username={name} password={password};"
        options |= {"kafka.sasl.mechanism": security.mechanism, "kafka.sasl.jaas.config": login}
    if security.ca_file:
        text = _read(security.ca_file, "kafka.security.ca_file")
        options |= {"kafka.ssl.truststore.type": "PEM", "kafka.ssl.truststore.certificates": text}
    if security.certificate_file:
        key, chain = _key_and_chain(_read(security.certificate_file, "kafka.security.certificate_file"))
        options |= {
            "kafka.ssl.keystore.type": "PEM",
            "kafka.ssl.keystore.key": key,
            "kafka.ssl.keystore.certificate.chain": chain,
        }
    return options


def read_sasl_credentials(security: KafkaSecurity) -> Credentials:
    """
    :raises SettingError: their file can't be read, or hasn't two lines
    """
    return read_credentials(Path(security.credentials_file), "kafka.security.credentials_file")


def _read(file: str, setting: str) -> str:
    try:
        return Path(file).read_text("ascii")
    except (OSError, UnicodeDecodeError) as unreadable:
        raise SettingError(setting, f"{file} can't be read: {type(unreadable).__name__}") from unreadable


def _quote_word(word: str) -> str:
    return '"' + word.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _key_and_chain(text: str) -> tuple[str, str]:
    """Splits the key and the certificate chain for Java.

    :raises SettingError: one of them isn't there, or the key isn't PKCS #8 without a passphrase
    """
    keys = [block[0] for block in _PEM.finditer(text) if block[1] == "PRIVATE KEY"]
    chain = [block[0] for block in _PEM.finditer(text) if block[1] == "CERTIFICATE"]
    if len(keys) != 1 or not chain:
        expected = "one PRIVATE KEY (PKCS #8, no passphrase) and its CERTIFICATE, then those of its issuers"
        raise SettingError("kafka.security.certificate_file", f"the file must hold {expected}, as PEM")
    return keys[0], "\n".join(chain)


class _Client(Protocol):
    def set_sasl_credentials(self, username: str, password: str) -> None: ...


class _Follower:
    def __init__(self, security: KafkaSecurity) -> None:
        self._security = security
        self._known = read_sasl_credentials(security)
        self._clients: weakref.WeakSet[Any] = weakref.WeakSet()
        self._failed = False
        self._lock = threading.Lock()
        threading.Thread(target=self._run, name="credentials of Kafka", daemon=True).start()

    def add(self, client: _Client) -> None:
        with self._lock:
            self._clients.add(client)

    def refresh_credentials(self) -> None:
        """Reads the credentials again. While their file can't be read, clients keep what they have."""
        with self._lock:
            if not self._clients:
                return
        try:
            now = read_sasl_credentials(self._security)
        except SettingError as wrong:
            if not self._failed:
                log.warning("Kafka's new credentials can't be read, so its clients keep the old ones: %s", wrong)
            self._failed = True
            return
        self._failed = False
        if now == self._known:
            return
        with self._lock:
            clients = list(self._clients)
            self._known = now
        for client in clients:
            client.set_sasl_credentials(*now)
        log.info("Kafka's clients have taken new credentials of %s", now.name)

    def _run(self) -> None:
        pause = threading.Event()
        while not pause.wait(LOOK_S):
            self.refresh_credentials()


C = TypeVar("C", bound=_Client)

_followers: dict[KafkaSecurity, _Follower] = {}
_followers_lock = threading.Lock()


def _follow_credentials(client: C, security: KafkaSecurity) -> C:
    if security.is_sasl:
        with _followers_lock:
            follower = _followers.get(security) or _followers.setdefault(security, _Follower(security))
        follower.add(client)
    return client
