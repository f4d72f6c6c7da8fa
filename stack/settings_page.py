"""The page of all settings, made from the code: ``python -m stack.settings_page > docs/settings.md``."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeGuard, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from processor.streams import StreamConfig
from stack.settings import Settings

_HEAD = """\
# Settings

Made from the code by `make docs`; don't edit. A setting stands in `payhook.toml` under its section (`[ingest]`,
`[processor]`, …) or in the environment as `PAYHOOK_` and its name in capitals, sections joined by `__`:
`ingest.port` is `PAYHOOK_INGEST__PORT`. The environment wins. A wrong or unknown one is named at start.

`streams.NAME.…` are the keys of a work stream: in a file of streams they stand under `[NAME]` (`processor/streams.toml`
ships those there are, `processor.streams_file` names one's own), under `[defaults]` for all streams.

Secrets aren't settings: they are files in `secrets/` of the data folder, one a provider, and one with the keys of an
object store ([storage](storage.md)).

| setting | default | what it is |
|---|---|---|
"""


def page() -> str:
    """The whole page as Markdown."""
    return _HEAD + "".join(f"| `{name}` | {default} | {what} |\n" for name, default, what in _rows(Settings, ""))


def _rows(model: type[BaseModel], prefix: str) -> Iterator[tuple[str, str, str]]:
    for name, field in model.model_fields.items():
        inner = field.annotation
        if _is_section(inner):
            yield from _rows(inner, f"{prefix}{name}.")
            continue
        if model is Settings and name == "streams":
            yield from _rows(StreamConfig, "streams.NAME.")
            continue
        if field.exclude:
            continue
        yield f"{prefix}{name}", _default(field), (field.description or "").replace("|", "\\|")
        for part in get_args(inner):
            if get_origin(inner) is dict and _is_section(part):
                yield from _rows(part, f"{prefix}{name}.NAME.")


def _is_section(annotation: Any) -> TypeGuard[type[BaseModel]]:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)


def _default(field: FieldInfo) -> str:
    value: Any = field.get_default(call_default_factory=True)
    if value is PydanticUndefined:
        return "none: must be set"
    if isinstance(value, Path):
        return "`.payhook/data`"
    if isinstance(value, (dict, tuple)):
        return "none" if not value else f"`{json.dumps(value, default=str)}`"
    return f"`{value}`" if value not in ("", None) else "none"


def main() -> int:
    sys.stdout.write(page())
    return 0


if __name__ == "__main__":
    sys.exit(main())
