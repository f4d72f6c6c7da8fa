"""The one tree of settings: payhook.toml under environment variables, checked at the start.

``PAYHOOK_KAFKA__BOOTSTRAP_SERVERS=…`` is ``[kafka] bootstrap_servers = "…"``; the environment wins.
`tests.settings_page` makes docs/settings.md of it.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, Field, ValidationError, field_validator, model_validator
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from alerts.settings import AlertsSettings
from console.settings import ConsoleSettings, TracingSettings
from core.errors import SettingError
from core.layout import Layout
from core.location import is_url
from core.log import FORMAT_VARIABLE
from core.settings import KafkaSettings, RedisSettings, Section, TopicsSettings
from core.store import URL, WANTED, StorageSettings, StoreSettings, equip_bucket, set_store_env
from ingest.settings import IngestSettings
from ledger.settings import LedgerSettings
from notify.settings import NotifySettings
from processor.settings import ProcessorSettings
from processor.streams import StreamConfig, list_names, load_streams
from providers.settings import ProvidersSettings
from stack.machine import DEFAULT_DATA_DIR

CONFIG_FILE = "payhook.toml"
PREFIX = "PAYHOOK_"
CONFIG_VARIABLE = "PAYHOOK_CONFIG"
NOT_SETTINGS = (
    CONFIG_VARIABLE,
    FORMAT_VARIABLE,
    "PAYHOOK_TEST",
    "PAYHOOK_CRASH_",
    "PAYHOOK_BENCH_",
    "PAYHOOK_LOAD_",
)
"""What the log, tests and load tests read beside the settings; names or beginnings of names."""


class BackupSettings(Section):
    folder: str = Field(
        "",
        description="where backups go: a folder on another disk, or `s3://bucket/folder`, `az://…`, in "
        "another bucket than the lake's; empty: none is made by itself",
    )
    every_h: float = Field(24.0, gt=0, le=720, description="hours from one backup to the next while the stack is up")
    keep: int = Field(
        7,
        ge=1,
        le=1_000,
        description="backups that are kept; on a disk they share the files that didn't change, on a store none",
    )
    store: StoreSettings | None = Field(
        None,
        description="how the backups' store is reached, as `storage.endpoint`, `.region`, `.path_style`, "
        "`.allow_http` and `.credentials_file`: `backup.store.endpoint`, …; empty: it is the lake's",
    )

    @field_validator("folder")
    @classmethod
    def _is_a_place(cls, folder: str) -> str:
        if "://" in folder and not URL.fullmatch(folder):
            raise ValueError(f"{folder!r} isn't a URL of a store: {WANTED}")
        return folder


class Settings(BaseSettings):
    """Everything that can be set. Defaults fit one machine; `payhook up` fills in addresses and ports."""

    model_config = SettingsConfigDict(
        frozen=True,
        extra="forbid",
        env_prefix=PREFIX,
        env_nested_delimiter="__",
    )

    data_dir: Path = Field(DEFAULT_DATA_DIR, description="folder that holds everything payhook writes")
    metrics_host: str = Field(
        "127.0.0.1", min_length=1, description="address that the metrics of receiver, processor and alerts bind"
    )
    storage: StorageSettings = Field(default_factory=lambda: StorageSettings(), description="where the lake is")
    kafka: KafkaSettings = Field(default_factory=lambda: KafkaSettings(), description="Kafka")
    redis: RedisSettings = Field(default_factory=lambda: RedisSettings(), description="Redis")
    topics: TopicsSettings = Field(default_factory=lambda: TopicsSettings(), description="Kafka's topics")
    providers: ProvidersSettings = Field(default_factory=lambda: ProvidersSettings(), description="providers' adapters")
    ingest: IngestSettings = Field(default_factory=lambda: IngestSettings(), description="the receiver")
    processor: ProcessorSettings = Field(default_factory=lambda: ProcessorSettings(), description="the processor")
    ledger: LedgerSettings = Field(default_factory=lambda: LedgerSettings(), description="the ledger")
    streams: dict[str, dict[str, Any]] = Field(
        default_factory=dict, description="keys of work streams, laid over those of streams.toml"
    )
    notify: NotifySettings = Field(default_factory=lambda: NotifySettings(), description="notifications of subscribers")
    console: ConsoleSettings = Field(default_factory=lambda: ConsoleSettings(), description="the management listener")
    tracing: TracingSettings = Field(
        default_factory=lambda: TracingSettings(), description="where traces are looked at"
    )
    alerts: AlertsSettings = Field(default_factory=lambda: AlertsSettings(), description="alerts without Prometheus")
    backup: BackupSettings = Field(default_factory=lambda: BackupSettings(), description="backups")

    @field_validator("data_dir")
    @classmethod
    def _make_absolute(cls, folder: Path) -> Path:
        return folder.expanduser().absolute()

    @model_validator(mode="after")
    def _partitions_are_divided_evenly(self) -> Settings:
        partitions, count = self.kafka.events_partitions, self.processor.shards
        if partitions % count:
            problem = f"kafka.events_partitions is {partitions}, processor.shards {count}: it must be a multiple of it"
            raise ValueError(problem)
        return self

    @property
    def layout(self) -> Layout:
        return Layout(self.data_dir, self.storage.url, self.processor.shards)

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        return env_settings, init_settings


def load_settings(config: Path | None = None, *, reaches_lake: bool = True) -> Settings:
    """Reads the settings of this process: ``config``, else ``PAYHOOK_CONFIG``, else ./payhook.toml if it is there.

    :param reaches_lake: whether this process opens tables, and needs an object store's address and keys

    :raises SettingError: names the setting that is wrong, or the file that can't be read
    """
    _refuse_unknown_variables(os.environ)
    try:
        settings = _with_places(Settings(**_from_file(_config_file(config))))
    except ValidationError as wrong:
        raise _build_setting_error(wrong) from None
    streams_of(settings)
    if reaches_lake:
        prepare_store(settings, settings.storage.url)
        prepare_store(settings, settings.backup.folder)
    return settings


def prepare_store(settings: Settings, place: str) -> None:
    """Tells this process how the store of the lake, or of backups, is reached; nothing of a folder on a disk.

    :raises SettingError: the file with its keys can't be read, or isn't one
    """
    own, lake = settings.backup.store, settings.storage.url
    if own is not None and is_url(place) and place != lake:
        equip_bucket(own, place)
    elif lake and is_url(place) and place[:2] != lake[:2]:
        raise SettingError("backup.store", f"the lake is {lake}, and {place} is of another kind: say how it is reached")
    else:
        set_store_env(settings.storage, settings.layout.secrets, place)


def streams_of(settings: Settings) -> dict[str, StreamConfig]:
    """Returns every work stream that is configured, by name.

    :raises SettingError: one is wrong; names file, stream and key
    """
    return load_streams(settings.processor.streams_file, settings.streams, settings.processor.shards)


def stream_names(settings: Settings) -> list[str]:
    return list_names(streams_of(settings), settings.ingest.taken_modes)


def _with_places(settings: Settings) -> Settings:
    layout = settings.layout
    usual = (
        ("kafka", "record_keys_file", layout.record_keys),
        ("ledger", "merchants_file", layout.merchants_file),
        ("notify", "subscribers_file", layout.subscribers_file),
        ("processor", "anchor_key_file", layout.anchor_keys),
        ("ingest", "secrets_dir", layout.secrets),
    )
    sections: dict[str, BaseModel] = {"notify": settings.notify.model_copy(update={"data_dir": str(layout.root)})}
    for section, name, place in usual:
        given = sections.get(section, getattr(settings, section))
        sections[section] = given.model_copy(update={name: getattr(given, name) or str(place)})
    return settings.model_copy(update=sections)


def _config_file(config: Path | None) -> Path | None:
    named = config or (Path(os.environ[CONFIG_VARIABLE]) if os.environ.get(CONFIG_VARIABLE) else None)
    if named is not None:
        return named
    here = Path(CONFIG_FILE)
    return here if here.is_file() else None


def _from_file(file: Path | None) -> dict[str, Any]:
    if file is None:
        return {}
    try:
        return tomllib.loads(file.read_text("utf-8"))
    except (OSError, ValueError) as unreadable:
        raise SettingError(str(file), f"the file can't be read: {unreadable}") from unreadable


def _refuse_unknown_variables(env: Mapping[str, str]) -> None:
    """Refuses a misspelt setting: pydantic-settings passes over a variable that names no section."""
    for variable in sorted(env):
        if not variable.startswith(PREFIX) or variable.startswith(NOT_SETTINGS):
            continue
        section = variable.removeprefix(PREFIX).split("__")[0].lower()
        if section not in Settings.model_fields:
            known = ", ".join(sorted(Settings.model_fields))
            raise SettingError(variable, f"no such setting; known are {known}")


def _build_setting_error(wrong: ValidationError) -> SettingError:
    first = wrong.errors(include_url=False)[0]
    path = [str(part) for part in first["loc"]]
    variable = PREFIX + "__".join(path).upper()
    problem = "no such setting" if first["type"] == "extra_forbidden" else first["msg"]
    return SettingError(f"{'.'.join(path)} ({variable})", problem)
