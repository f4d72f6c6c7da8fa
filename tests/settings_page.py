"""docs/settings.md, made from the code: the ten that people set first, then every setting under its topic."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TypeAlias, TypeGuard, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from processor.streams import StreamConfig
from stack.settings import Settings

FIRST = {
    "data_dir": "a disk that is large enough, and its backup is on another one",
    "kafka.bootstrap_servers": "your Kafka; without it `payhook up` starts one broker of its own",
    "redis.url": "your Redis; without it `payhook up` starts one",
    "storage.url": "an object store for the lake, where it must outlive the machine",
    "ingest.test_traffic": "the providers' test mode too, with a ledger of its own",
    "ingest.endpoints": "several accounts, tenants or shops at one provider",
    "processor.streams_file": "a handler of your own",
    "console.public_url": "a proxy before the pages, so that links and cookies are right",
    "alerts.receivers": "who gets an alert when something is wrong",
    "backup.folder": "where backups go each night",
}
"""What people set first, and what for."""

TOPICS: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("Where everything is", "The data folder and the lake: [storage](storage.md).", ("data_dir", "storage.")),
    (
        "Receiving",
        "Endpoints, limits and masking: [receiver](receiver.md), [card numbers](card-numbers.md).",
        ("ingest.",),
    ),
    (
        "Providers",
        "What a provider's webhooks don't say; secrets are files. Booked as in the [finance guide](finance.md).",
        ("providers.",),
    ),
    ("Kafka", "[Deployment](deployment.md), [rights](kafka-rights.md).", ("kafka.", "topics.")),
    ("Redis", "[Redis](redis.md).", ("redis.",)),
    ("The processor", "[Processor](processor.md), [clusters](cluster.md), [scaling](scaling.md).", ("processor.",)),
    (
        "Work streams",
        "The keys of a stream: in a file of streams they stand under `[NAME]` (`processor/streams.toml` ships those "
        "there are, `processor.streams_file` names one's own), under `[defaults]` for all streams. "
        "[A handler of your own](streams.md).",
        ("streams.",),
    ),
    ("The ledger", "Merchants, verification and maintenance: [finance guide](finance.md).", ("ledger.",)),
    ("Notifications", "[Notifications](notifications.md).", ("notify.",)),
    ("Pages and API", "[Pages](console.md), [API](api.md), [traces](tracing.md).", ("console.", "tracing.")),
    ("Alerts and metrics", "[Alerts](alerts.md), [metrics](metrics.md).", ("alerts.", "metrics_host")),
    ("Backups", "[Backups](backups.md).", ("backup.",)),
)
"""Title, what it is about, and how the names of its settings begin."""

HEAD = """\
# Settings

Made from the code by `make docs`; don't edit. A setting stands in `payhook.toml` under its section (`[ingest]`,
`[processor]`, …) or in the environment as `PAYHOOK_` and its name in capitals, sections joined by `__`:
`ingest.port` is `PAYHOOK_INGEST__PORT`. The environment wins. A wrong or unknown one is named at start.

Only in the environment stand `PAYHOOK_LOG_FORMAT` (`json` or `text`; unset, logs are text on a terminal and JSON lines
elsewhere) and OpenTelemetry's own variables: `OTEL_EXPORTER_OTLP_ENDPOINT` turns traces on ([traces](tracing.md)).

Secrets aren't settings: they are files in `secrets/` of the data folder, one a provider, and one with the keys of an
object store ([storage](storage.md)).

Nothing has to be set on one machine. What people set first:

| setting | for |
|---|---|
"""
COLUMNS = "| setting | default | what it is |\n|---|---|---|\n"

Row: TypeAlias = tuple[str, str, str]
"""Name, default, and what it is."""


def settings_page() -> str:
    rows = list(_list_rows(Settings, ""))
    first = "".join(f"| [`{name}`](#{_anchor_of(_topic_of(name))}) | {what} |\n" for name, what in FIRST.items())
    return HEAD + first + "".join(_build_section(title, about, rows) for title, about, _ in TOPICS)


def setting_names() -> list[str]:
    return [name for name, _, _ in _list_rows(Settings, "")]


def _build_section(title: str, about: str, rows: Sequence[Row]) -> str:
    lines = "".join(f"| `{name}` | {default} | {what} |\n" for name, default, what in rows if _topic_of(name) == title)
    return f"\n## {title}\n\n{about}\n\n{COLUMNS}{lines}"


def _topic_of(name: str) -> str:
    return next(title for title, _, beginnings in TOPICS if name.startswith(beginnings))


def _anchor_of(title: str) -> str:
    return title.lower().replace(" ", "-")


def _list_rows(model: type[BaseModel], prefix: str) -> Iterator[tuple[str, str, str]]:
    for name, field in model.model_fields.items():
        inner = field.annotation
        if _is_section(inner):
            yield from _list_rows(inner, f"{prefix}{name}.")
            continue
        if model is Settings and name == "streams":
            yield from _list_rows(StreamConfig, "streams.NAME.")
            continue
        if field.exclude:
            continue
        yield f"{prefix}{name}", _format_default(field), (field.description or "").replace("|", "\\|")
        for part in get_args(inner):
            if get_origin(inner) is dict and _is_section(part):
                yield from _list_rows(part, f"{prefix}{name}.NAME.")


def _is_section(annotation: Any) -> TypeGuard[type[BaseModel]]:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)


def _format_default(field: FieldInfo) -> str:
    value: Any = field.get_default(call_default_factory=True)
    if value is PydanticUndefined:
        return "none: must be set"
    if isinstance(value, Path):
        return "`.payhook/data`"
    if isinstance(value, (dict, tuple)):
        return "none" if not value else f"`{json.dumps(value, default=str)}`"
    return f"`{value}`" if value not in ("", None) else "none"


if __name__ == "__main__":
    sys.stdout.write(settings_page())
